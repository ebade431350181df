"""What a program is: recording, checking, transforming, writing and reading."""
