"""Special functions of float64 arrays, each to a few ulp, without loops over elements.

Where a function is smooth it is one polynomial, the Chebyshev expansion on the interval written in
powers of ``s`` in [-1, 1] (computed with 50 digits); symmetries, recurrences and asymptotic series
bring every other argument there. Floating-point warnings are expected to be off.
"""

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# erf(x) / x, in t = x^2 on [0, 1]
_ERF_NEAR = (
    0.9654687386698673,
    -0.1405360890227171,
    0.019852496688983708,
    -0.0022854855611441132,
    0.00021751715604160108,
    -1.7537169441124826e-05,
    1.223382738352401e-06,
    -7.51156928660089e-08,
    4.11580059766496e-09,
    -2.035228404899467e-10,
    9.167606746069445e-12,
    -3.8078827395263415e-13,
    1.454817075960679e-14,
)
# erf(x) / x, in x^2 on [0, 16], to 29 bits
_ERF_FLOAT32 = (
    0.353530996361569,
    -0.17657623587308224,
    0.13167500145686428,
    -0.10771028937936981,
    0.09021204267249823,
    -0.07473053609826187,
    0.05985599357908088,
    -0.04574400173257201,
    0.0332170011033609,
    -0.02256359769822736,
    0.013908146202218462,
    -0.00838207414610365,
    0.005577363693948322,
    -0.0029118389977216765,
    0.0006166107060298349,
    -0.00032430257864073347,
    0.0005964250762635257,
    -0.000246708826385322,
)
# (1 + 2 x) e^(x^2) erfc(x), in u = (x - 15/4) / (x + 15/4) on [-13/17, 1], so x in [1/2, inf]
_ERFC_TAIL = (
    1.2211784257075968,
    -0.12053676481185699,
    0.0194136294152093,
    0.028932667379783894,
    -0.03952116335240577,
    0.031165502863171043,
    -0.01834027361854601,
    0.008370971289459364,
    -0.002857358019748799,
    0.0006163684452854351,
    -7.550854457519601e-06,
    -5.046255817855475e-05,
    1.5886613597836945e-05,
    7.161304806907899e-07,
    -1.812874438427619e-06,
    2.908223438093476e-07,
    1.5600394613744387e-07,
    -5.761202307373951e-08,
    -1.2099169741372735e-08,
    8.334626749816433e-09,
    8.64920940965038e-10,
    -1.0041355268089822e-09,
    -4.582251643960748e-11,
    7.587356859387078e-11,
)
# erf_inv(x) / x, in w = -log(1 - x^2) on [0, 6.25], then in sqrt(w) on [2.5, 4] and on [4, 6.1]
_ERF_INV_NEAR = (
    1.6536545626831027,
    0.7504943200799635,
    -0.05892256710377839,
    -0.022604447453450232,
    0.017808361818321756,
    -0.004137314377403391,
    -0.001271692268923054,
    0.001232485568550093,
    -0.00026439366376450275,
    -0.00011688883906368398,
    9.336736525855553e-05,
    -1.5027713926607673e-05,
    -1.12572237422896e-05,
    7.1300663740767115e-06,
    -6.839448584111029e-07,
    -1.059336931327948e-06,
    5.397895417173957e-07,
    -1.0167881522843899e-08,
    -9.905042307855316e-08,
    3.9142671001331085e-08,
    5.039596477958063e-09,
    -8.557984074479201e-09,
    1.4461050507676023e-09,
    7.680990475576525e-10,
    -2.5466157998892667e-10,
)
_ERF_INV_MIDDLE = (
    3.0838856104922208,
    0.753944225770624,
    0.003021139436374801,
    -0.0015825410894071102,
    0.0007883078513035505,
    -0.00040063569835709886,
    0.00016966502201594177,
    -4.739182728807125e-05,
    2.4058645410848233e-06,
    5.12731666449741e-06,
    -2.664792853936729e-06,
    5.264624728714587e-07,
    9.28911222561948e-08,
    -9.468994570246937e-08,
    2.640222955342202e-08,
    -3.6862448212666726e-10,
    -2.4632549100503405e-09,
    9.889115389827977e-10,
    -1.1662393838626048e-10,
    -6.466960514925277e-11,
    2.4097707183427266e-11,
)
_ERF_INV_FAR = (
    4.90042105144364,
    1.0607992684776597,
    -0.00018726854587222013,
    -0.00023188618667805715,
    8.659304866767489e-05,
    -2.345108266487681e-05,
    5.6201649314465295e-06,
    -1.276353362480803e-06,
    2.9788420271490196e-07,
    -8.525116526386363e-08,
    3.554250780842224e-08,
    -1.9082961589887076e-08,
    1.0431569308888455e-08,
    -5.093015056951128e-09,
    2.0706626485109454e-09,
    -6.838446100317265e-10,
    1.7171209505455912e-10,
    6.095706841892513e-12,
    -3.7742013942027056e-11,
    1.2662789994568851e-11,
)
# lgamma(2 + t) / t on [-1/2, 1]
_LGAMMA = (
    0.4994868595695864,
    0.21917882116244464,
    -0.030541164666834205,
    0.0061966365682440076,
    -0.001475284220194118,
    0.0003832198800395825,
    -0.0001050368106106043,
    2.9836329666732718e-05,
    -8.690385595859135e-06,
    2.578121719185115e-06,
    -7.755339781986986e-07,
    2.3583082210928383e-07,
    -7.234609675864082e-08,
    2.234897983698776e-08,
    -6.9256028777360776e-09,
    2.1608828757765594e-09,
    -6.999053676537071e-10,
    2.2163475329647972e-10,
    -5.338270195284156e-11,
    1.630804231887872e-11,
    -1.2167808436878796e-11,
    3.985660331459301e-12,
)
# digamma(x) / (x - root) on [1, 2], and its root in two pieces
_DIGAMMA = (
    0.9510558760318328,
    -0.2118137106407303,
    0.06013562106019684,
    -0.018550615381735008,
    0.005936795278301761,
    -0.0019350666648613071,
    0.0006368880303865817,
    -0.00021074841138175561,
    6.995018825112794e-05,
    -2.3258242519113285e-05,
    7.741234508636364e-06,
    -2.578093954045772e-06,
    8.589060721930695e-07,
    -2.863161166883193e-07,
    9.543298288278275e-08,
    -3.162911147408454e-08,
    1.0527692435026686e-08,
    -3.7083753242807277e-09,
    1.2469984616707403e-09,
    -2.7580994814377e-10,
    8.734528429142953e-11,
    -8.50550766013261e-11,
    2.918622732168261e-11,
)
_DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)
# (1 + x/4)^(3/2) e^-x I1(x) / x on [0, 8], and sqrt(x) e^-x I1(x) in 16 / x - 1 on [8, inf]
_I1E_NEAR = (
    0.12639593075496022,
    -0.07808878759904309,
    0.07468127838851665,
    -0.06652159567161824,
    0.05467022511504524,
    -0.041047077731120415,
    0.02787304332453884,
    -0.016912340542998547,
    0.008997227910091362,
    -0.004037292042563929,
    0.0013720263515687135,
    -0.00018796106428497898,
    -0.00019832241275348332,
    0.00023757979520607492,
    -0.00017042844140538924,
    9.792982679148779e-05,
    -4.835949817260034e-05,
    2.098152377628416e-05,
    -8.000736160130672e-06,
    2.632505583661897e-06,
    -6.719465801570163e-07,
    4.190938078513939e-08,
    7.034081973983395e-08,
    -2.5117624276069623e-08,
    1.779872291125526e-08,
    -3.559086346854321e-08,
    1.7013124054965627e-08,
    4.803588204837094e-09,
    -2.42776942476431e-09,
    -2.409786953741387e-09,
    1.0598760646129818e-09,
)
_I1E_FAR = (
    0.38939845902587233,
    -0.009749577193235737,
    -0.00021923576383388928,
    -1.5038547200567216e-05,
    -1.8349101326980946e-06,
    -3.483855761044295e-07,
    -1.0001288294864884e-07,
    -4.312917729178349e-08,
    -2.337392820814264e-08,
    -8.427766093735185e-09,
    6.734464815301592e-09,
    1.4034238782067183e-08,
    5.974437608040264e-09,
    -7.64239413436356e-09,
    -7.888351507862078e-09,
    3.4262341490077958e-09,
    6.242741219786445e-09,
    -1.4387250533041013e-09,
    -3.794670896208339e-09,
    5.295625441161261e-10,
    1.6848984479705146e-09,
    -1.4011625179770627e-10,
    -4.758818838703853e-10,
    1.8515118828852956e-11,
    6.305965197150057e-11,
)

# B_2k / (2k (2k - 1)), the coefficients of Stirling's series of lgamma in z^(1 - 2k)
_STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
    43867 / 244188,
)  # fmt: skip
# B_2k / (2k), of the series of digamma in z^-2k
_DIGAMMA_SERIES = (
    1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160,
)  # fmt: skip
# B_2k / (2k)!, of the Euler-Maclaurin sum of zeta
_ZETA_SERIES = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
)  # fmt: skip
_ZETA_TERMS = 12
_FACTORIALS = np.array([float(math.factorial(n)) for n in range(171)] + [math.inf])


def _horner(coefficients: tuple[float, ...], s: Array) -> Array:
    """``sum of c_k s^k``."""
    result = np.full(np.shape(s), coefficients[-1])
    for c in coefficients[-2::-1]:
        result *= s
        result += c
    return result


def _on(a: float, b: float, x: Array) -> Array:
    """``x`` in [a, b] mapped to s in [-1, 1]; arguments outside are moved to the nearer end."""
    return np.clip((x - (a + b) / 2) * (2 / (b - a)), -1.0, 1.0)


def _erf_near(x: Array) -> Array:
    return x * _horner(_ERF_NEAR, _on(0.0, 1.0, x * x))


def _erfc_tail(a: Array) -> Array:
    """``erfc(a)`` for ``a >= 1/2``."""
    # e^(-a^2) with a^2 split, since its rounding error would be magnified by a^2:
    # h has half the bits of a, so that h^2 is exact.
    h = np.asarray(a, np.float32).astype(np.float64)
    gauss = np.exp(-h * h) * np.exp((h - a) * (h + a))
    u = np.where(np.isinf(a), 1.0, (a - 3.75) / (a + 3.75))
    result = gauss * _horner(_ERFC_TAIL, _on(-13 / 17, 1.0, u)) / (1 + 2 * a)
    return np.where(a > 30, 0.0, result)  # below the smallest number, and h^2 may be inf


def erf(x: Array) -> Array:
    """The error function."""
    a = np.abs(x)
    return np.where(a < 1, _erf_near(x), np.copysign(1 - _erfc_tail(a), x))


def erf_float32(x: Array) -> Array:
    """The error function of float32 arrays; from 4 on it is 1."""
    a = np.minimum(np.maximum(x, np.float32(-4)), np.float32(4))
    s = np.asarray(a * a)
    s *= np.float32(1 / 8)
    s -= np.float32(1)
    result = np.full(s.shape, _ERF_FLOAT32[-1], np.float32)
    for c in _ERF_FLOAT32[-2::-1]:
        result *= s
        result += np.float32(c)
    result *= a
    return np.minimum(np.maximum(result, np.float32(-1)), np.float32(1))


def erfc(x: Array) -> Array:
    """``1 - erf(x)``, without cancellation."""
    tail = _erfc_tail(np.abs(x))
    return np.where(np.abs(x) < 0.5, 1 - _erf_near(x), np.where(x < 0, 2 - tail, tail))


def erf_inv(x: Array) -> Array:
    """The inverse of `erf`; ±inf at ±1, nan outside."""
    w = -(np.log1p(-x) + np.log1p(x))  # not log1p(-x^2): x^2 rounds badly near 1
    root = np.sqrt(w)
    ratio = np.where(
        w < 6.25,
        _horner(_ERF_INV_NEAR, _on(0.0, 6.25, w)),
        np.where(
            w < 16,
            _horner(_ERF_INV_MIDDLE, _on(2.5, 4.0, root)),
            _horner(_ERF_INV_FAR, _on(4.0, 6.1, root)),
        ),
    )
    return np.where(np.abs(x) == 1, x * np.inf, x * ratio)


def _lgamma_right(z: Array) -> Array:
    """``lgamma(z)`` for ``z >= 1/2``."""
    # [8, inf): Stirling, (z - 1/2)(log z - 1) + (log 2 pi - 1)/2 + 1/12z - 1/360z^3 ...
    far = z >= 8
    v = np.where(far, z, 8.0)
    series = _horner(_STIRLING, 1 / (v * v)) / v
    large = (v - 0.5) * (np.log(v) - 1) + ((math.log(2 * math.pi) - 1) / 2 + series)
    # [1/2, 8): Gamma(z) = (z - 1) ... (2 + t) Gamma(2 + t) with t in [-1/2, 1]; one step up below
    # 3/2, where lgamma(z) = lgamma(z + 1) - log z and t = z - 1 is exact.
    t, product = z - 2, np.ones(np.shape(z))
    for _ in range(5):
        step = t > 1
        t = np.where(step, t - 1, t)
        product = np.where(step, product * (t + 2), product)
    low = z < 1.5
    t = np.where(low, z - 1, t)
    value = np.where(low, -np.log(z), np.log(product))
    near = t * _horner(_LGAMMA, _on(-0.5, 1.0, t)) + value
    return np.where(far, large, np.where(np.isnan(z), z, near))


def lgamma(x: Array) -> Array:
    """``log |Gamma(x)|``; inf at 0 and the negative integers and at ±inf."""
    # |x| < 1/2: lgamma(x) = lgamma(2 + x) - log |x| - log(1 + x)
    middle = np.abs(x) < 0.5
    center = x * _horner(_LGAMMA, _on(-0.5, 1.0, x)) - np.log(np.abs(x)) - np.log1p(x)
    # x < 0: log(pi / |sin(pi x)|) - lgamma(1 - x)
    negative = x < 0
    right = _lgamma_right(np.where(negative, 1 - x, np.maximum(x, 0.5)))
    sine = np.abs(np.sin(np.pi * (x - np.rint(x))))
    left = np.where(sine == 0, np.inf, np.log(np.pi / sine) - right)
    result = np.where(middle, center, np.where(negative, left, right))
    return np.where(np.isinf(x), np.inf, result)


def _digamma_right(z: Array) -> Array:
    """``digamma(z)`` for ``z > 0``."""
    # [10, inf): log z - 1/2z - 1/12z^2 + 1/120z^4 ...
    far = z >= 10
    v = np.where(far, z, 10.0)
    square = 1 / (v * v)
    large = np.log(v) - 0.5 / v - square * _horner(_DIGAMMA_SERIES, square)
    # (0, 10): digamma(z) = digamma(z + 1) - 1/z and digamma(z) = digamma(z - 1) + 1/(z - 1)
    low = z < 1
    shift = np.where(low, -1 / z, 0.0)
    u = np.where(low, z + 1, z)
    for _ in range(8):
        step = u > 2
        u = np.where(step, u - 1, u)
        shift = np.where(step, shift + 1 / u, shift)
    distance = (u - _DIGAMMA_ROOT[0]) - _DIGAMMA_ROOT[1]
    near = distance * _horner(_DIGAMMA, _on(1.0, 2.0, u)) + shift
    return np.where(far, large, np.where(np.isnan(z), z, near))


def digamma(x: Array) -> Array:
    """The derivative of `lgamma`; nan at the negative integers."""
    negative = x <= 0
    right = _digamma_right(np.where(negative, 1 - x, x))
    # x < 0: digamma(1 - x) - pi cot(pi x), and cot(pi r) = tan(pi (1/2 - r)) near its zeros
    r = x - np.rint(x)
    near_zero = np.copysign(np.tan(np.pi * (0.5 - np.abs(r))), r)
    left = right - np.pi * np.where(np.abs(r) > 0.25, near_zero, 1 / np.tan(np.pi * r))
    return np.where(negative, np.where(r == 0, np.nan, left), right)


def _zeta_right(x: Array, q: Array) -> Array:
    """``zeta(x, q)`` for ``q > 0``."""
    # Euler and Maclaurin: the first terms, then with n = q + 12
    # n^(1-x)/(x-1) + n^-x/2 + sum of B_2j/(2j)! x(x+1)..(x+2j-2) n^(-x-2j+1)
    total = np.zeros(np.broadcast_shapes(np.shape(x), np.shape(q)))
    for k in range(_ZETA_TERMS):
        total = total + (q + k) ** -x
    n = q + _ZETA_TERMS
    power = n**-x
    total = total + power * (n / (x - 1) + 0.5)
    factor = x * power / n
    for j, b in enumerate(_ZETA_SERIES):
        total = total + b * factor
        factor = factor * ((x + (2 * j + 1)) * (x + (2 * j + 2)) / (n * n))
    return np.asarray(total)


def zeta(x: Array, q: Array) -> Array:
    """``sum over k >= 0 of (q + k)^-x``, the zeta function of Hurwitz."""
    whole = np.mod(x, 1) == 0
    negative = (q < 0) & np.isfinite(q)
    right = _zeta_right(x, np.where(negative, 1 - q, q))
    total = np.where(negative, np.nan, right)  # roots of negative numbers
    if np.any(negative & whole):
        # From the nearest pole, at q - r, there are terms to both sides: r^-x + zeta(x, 1 + r) in one direction, and
        # as many of zeta(x, 1 - r) as lie before those of zeta(x, 1 - q) in the other one.
        r = q - np.rint(q)
        left = _zeta_right(x, 1 - r) - right
        turned = r**-x + _zeta_right(x, 1 + r) + np.where(np.mod(x, 2) == 0, left, -left)
        total = np.where(negative & whole, turned, total)
    total = np.where(x < 1, np.nan, total)
    # The poles at q = 0, -1, ..: both sides go to +inf only for even x. As XLA, for every x.
    pole = np.where(np.mod(x, 2) == 0, np.inf, np.nan)
    total = np.where((q <= 0) & (q == np.floor(q)), pole, total)
    return np.where(x == 1, np.inf, total)


def polygamma(n: Array, x: Array) -> Array:
    """The n-th derivative of `digamma`: ``(-1)^(n+1) n! zeta(n + 1, x)``."""
    whole = np.clip(np.nan_to_num(n), 0, 171).astype(np.intp)
    sign = np.where(np.mod(n, 2) == 0, -1.0, 1.0)
    higher = sign * _FACTORIALS[whole] * zeta(n + 1, x)
    valid = (n >= 0) & (n == np.floor(n))
    return np.where(n == 0, digamma(x), np.where(valid, higher, np.nan))


def bessel_i1e(x: Array) -> Array:
    """``e^-|x| I1(x)``, the modified Bessel function scaled."""
    a = np.abs(x)
    grown = 1 + a / 4
    near = x * _horner(_I1E_NEAR, _on(0.0, 8.0, a)) / (grown * np.sqrt(grown))
    wide = np.maximum(a, 8.0)
    far = np.copysign(_horner(_I1E_FAR, 16 / wide - 1) / np.sqrt(wide), x)
    return np.where(a <= 8, near, np.where(np.isnan(x), x, far))
