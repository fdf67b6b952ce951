//! Distributions of `netem`'s delays: uniform, normal, Pareto; in 1/8192 of the jitter, with four times the jitter at most.
//!
//! The tables hold quantiles at tail probabilities, sixteen for each power of two, from the inverse of the normal distribution
//! and of Pareto's with shape 3 (mean taken out, variance one), computed for this file.

/// Which distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dist {
    Uniform,
    Normal,
    Pareto,
}

/// The jitter in the tables' unit.
const SCALE: i64 = 8_192;
/// Quantiles for each power of two.
const STEPS: usize = 16;

impl Dist {
    /// Reads a name.
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "uniform" => Some(Self::Uniform),
            "normal" => Some(Self::Normal),
            "pareto" => Some(Self::Pareto),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Normal => "normal",
            Self::Pareto => "pareto",
        }
    }

    /// A value around `mean` with deviation `sigma`, in nanoseconds and never below zero; `draw` is uniform.
    pub(super) fn value(self, mean: u64, sigma: u64, draw: u32) -> u64 {
        if sigma == 0 {
            return mean;
        }
        let sigma = i128::from(sigma);
        let offset = match self {
            Self::Uniform => ((i128::from(draw) * 2 * sigma) >> 32) - sigma,
            Self::Normal => sigma * i128::from(normal(draw)) / i128::from(SCALE),
            Self::Pareto => sigma * i128::from(tail(&PARETO, u64::from(draw) + 1)) / i128::from(SCALE),
        };
        (i128::from(mean) + offset).clamp(0, i128::from(u64::MAX)) as u64
    }
}

fn normal(draw: u32) -> i64 {
    let low = draw < 1 << 31;
    let p = u64::from(if low { draw } else { !draw }) + 1;
    let value = tail(&NORMAL, p << 1);
    if low { -value } else { value }
}

/// The quantile at `p` / 2^32 of the largest probability in the table, by interpolation.
fn tail(table: &[i32], p: u64) -> i64 {
    let p = p.min(1 << 32);
    // Of 2^-k >= p > 2^-(k+1), k names the row; how far p has come down within it, the place.
    let k = 32 - p.ilog2() as usize - usize::from(!p.is_power_of_two());
    let top = 1_u64 << (32 - k);
    let down = u128::from(top - p) * 2 * STEPS as u128;
    let (step, part) = ((down / u128::from(top)) as usize, (down % u128::from(top)) as i128);
    let at = k * STEPS + step;
    let get = |i: usize| i128::from(table[i.min(table.len() - 1)]);
    (get(at) + (get(at + 1) - get(at)) * part / i128::from(top)) as i64
}

/// From probability 1/2 on.
#[rustfmt::skip]
const NORMAL: [i32; 257] = [
    0, 321, 642, 965, 1_289, 1_615, 1_943, 2_275, 2_610, 2_950, 3_295, 3_646, 4_004, 4_370, 4_744, 5_129,
    5_525, 5_729, 5_935, 6_146, 6_360, 6_580, 6_804, 7_033, 7_268, 7_508, 7_756, 8_011, 8_274, 8_546, 8_827, 9_119,
    9_424, 9_581, 9_742, 9_906, 10_075, 10_248, 10_426, 10_609, 10_797, 10_991, 11_192, 11_399, 11_615, 11_838, 12_071, 12_313,
    12_568, 12_699, 12_834, 12_973, 13_115, 13_262, 13_413, 13_569, 13_729, 13_895, 14_068, 14_246, 14_432, 14_625, 14_827, 15_038,
    15_259, 15_375, 15_493, 15_615, 15_740, 15_869, 16_002, 16_139, 16_281, 16_428, 16_581, 16_739, 16_904, 17_077, 17_257, 17_446,
    17_645, 17_748, 17_854, 17_964, 18_076, 18_192, 18_312, 18_437, 18_565, 18_698, 18_836, 18_980, 19_130, 19_287, 19_451, 19_623,
    19_805, 19_899, 19_996, 20_096, 20_200, 20_306, 20_416, 20_530, 20_648, 20_770, 20_898, 21_030, 21_168, 21_313, 21_464, 21_623,
    21_791, 21_879, 21_969, 22_061, 22_157, 22_256, 22_358, 22_464, 22_573, 22_687, 22_806, 22_929, 23_058, 23_192, 23_334, 23_482,
    23_639, 23_721, 23_805, 23_892, 23_981, 24_074, 24_170, 24_269, 24_371, 24_478, 24_589, 24_705, 24_826, 24_953, 25_085, 25_225,
    25_373, 25_450, 25_529, 25_611, 25_695, 25_783, 25_873, 25_966, 26_063, 26_164, 26_269, 26_379, 26_493, 26_613, 26_738, 26_871,
    27_011, 27_084, 27_159, 27_236, 27_316, 27_399, 27_485, 27_573, 27_666, 27_761, 27_861, 27_965, 28_074, 28_188, 28_307, 28_433,
    28_566, 28_636, 28_707, 28_781, 28_858, 28_936, 29_018, 29_103, 29_191, 29_282, 29_377, 29_476, 29_580, 29_689, 29_803, 29_924,
    30_051, 30_117, 30_186, 30_257, 30_330, 30_405, 30_483, 30_564, 30_648, 30_736, 30_827, 30_922, 31_022, 31_126, 31_236, 31_351,
    31_473, 31_537, 31_603, 31_670, 31_741, 31_813, 31_888, 31_966, 32_047, 32_131, 32_218, 32_310, 32_406, 32_506, 32_611, 32_722,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768,
];

/// From probability 1 on.
#[rustfmt::skip]
const PARETO: [i32; 273] = [
    -4_730, -4_629, -4_524, -4_414, -4_299, -4_178, -4_052, -3_918, -3_778, -3_629, -3_471, -3_304, -3_125, -2_934, -2_730, -2_509,
    -2_271, -2_144, -2_012, -1_873, -1_729, -1_577, -1_417, -1_249, -1_072, -884, -685, -474, -250, -9, 249, 526,
    827, 987, 1_153, 1_328, 1_510, 1_702, 1_903, 2_115, 2_338, 2_574, 2_824, 3_090, 3_374, 3_676, 4_001, 4_351,
    4_730, 4_931, 5_141, 5_361, 5_591, 5_832, 6_085, 6_352, 6_634, 6_931, 7_246, 7_581, 7_938, 8_320, 8_729, 9_170,
    9_647, 9_901, 10_165, 10_442, 10_732, 11_036, 11_355, 11_691, 12_046, 12_421, 12_818, 13_240, 13_690, 14_171, 14_686, 15_242,
    15_842, 16_162, 16_496, 16_844, 17_209, 17_592, 17_995, 18_418, 18_865, 19_337, 19_838, 20_369, 20_936, 21_542, 22_192, 22_891,
    23_648, 24_051, 24_471, 24_910, 25_370, 25_853, 26_360, 26_893, 27_456, 28_051, 28_682, 29_352, 30_066, 30_829, 31_648, 32_529,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 32_768,
    32_768,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;

    /// Mean and standard deviation of the values around 1 s with 10 ms, in microseconds.
    fn moments(dist: Dist) -> (f64, f64) {
        let mut rng = Rng::new(5);
        let mut value = || dist.value(1_000_000_000, 10_000_000, rng.next_u32()) as f64 / 1_000.0;
        let values: Vec<f64> = (0..100_000).map(|_| value()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn mean_and_deviation_are_what_was_asked_for() {
        let (mean, deviation) = moments(Dist::Normal);
        assert!((mean - 1e6).abs() < 100.0 && (deviation - 1e4).abs() < 100.0, "{mean} {deviation}");
        let (mean, deviation) = moments(Dist::Uniform);
        assert!(
            (mean - 1e6).abs() < 100.0 && (deviation - 1e4 / 3f64.sqrt()).abs() < 100.0,
            "{mean} {deviation}"
        );
        // The long tail is cut at four deviations, as in Linux.
        let (mean, deviation) = moments(Dist::Pareto);
        assert!(
            (mean - 1e6).abs() < 1_000.0 && (7_000.0..9_500.0).contains(&deviation),
            "{mean} {deviation}"
        );
    }

    #[test]
    fn quantiles_are_where_they_belong() {
        let unit = 8_192_u64 << 10;
        let at = |p: f64| Dist::Normal.value(1 << 40, unit, (p * 4_294_967_296.0) as u32) as i64 - (1 << 40);
        for (p, sigmas) in
            [(0.5, 0.0), (0.841_345, 1.0), (0.158_655, -1.0), (0.977_25, 2.0), (0.001_35, -3.0)]
        {
            let got = at(p) as f64 / unit as f64;
            assert!((got - sigmas).abs() < 0.01, "{p}: {got}");
        }
        assert_eq!(Dist::Normal.value(5, 1_000_000, 0), 0, "never below zero");
        for dist in [Dist::Uniform, Dist::Normal, Dist::Pareto] {
            for draw in [0, 1, u32::MAX / 2, 1 << 31, u32::MAX - 1, u32::MAX] {
                assert!(dist.value(1_000_000, 1_000, draw) <= 1_004_100);
                assert_eq!(dist.value(77, 0, draw), 77);
            }
            assert_eq!(Dist::parse(dist.name()), Some(dist));
        }
    }
}
