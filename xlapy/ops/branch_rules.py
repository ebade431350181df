"""x"""
from .rules import not_differentiable
def call_ad(param): return not_differentiable("not yet")
case_ad = not_differentiable("not yet")
