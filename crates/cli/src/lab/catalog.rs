//! The experiments that the program knows, with their variants.
use super::params::Params;
use super::runs::Plan;

/// One way to run an experiment.
pub(crate) struct Variant {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) about: &'static str,
    /// Sysctls of both hosts that make it.
    pub(crate) sysctls: &'static [(&'static str, &'static str)],
}

/// One experiment.
pub(crate) struct Experiment {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// The question that it answers.
    pub(crate) about: &'static str,
    /// Its variants; the first is Linux's defaults.
    pub(crate) variants: &'static [Variant],
    /// Each variant runs once for each of these, in 10^-6.
    pub(crate) losses_ppm: &'static [u32],
}

/// All experiments.
pub(crate) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "bulk",
    about: "a bulk transfer over a path of 100 Mbit/s and 100 ms, with and without random loss",
    variants: &[
        Variant { name: "cubic", about: "CUBIC with HyStart and SACK: Linux's defaults", sysctls: &[] },
        Variant {
            name: "cubic-hystart++",
            about: "the slow-start exit of RFC 9406",
            sysctls: &[("hystart", "2")],
        },
        Variant {
            name: "cubic-no-hystart",
            about: "slow start ends by loss alone",
            sysctls: &[("hystart", "0")],
        },
        Variant {
            name: "cubic-no-sack",
            about: "recovery without selective acknowledgements",
            sysctls: &[("tcp_sack", "0")],
        },
        Variant {
            name: "reno",
            about: "RFC 5681's congestion control",
            sysctls: &[("tcp_congestion_control", "reno")],
        },
    ],
    losses_ppm: &[0, 1_000, 10_000],
}];

impl Experiment {
    /// The runs of all variants, `set` applied on top of each.
    pub(crate) fn plan(&self, seed: u64, set: &[(String, String)]) -> Result<Vec<Plan>, String> {
        let own_loss = set.iter().any(|(key, _)| key == "loss_percent");
        let losses = if own_loss { &[0][..] } else { self.losses_ppm };
        let mut plans = Vec::new();
        for variant in self.variants {
            for &loss_ppm in losses {
                let mut params = Params::new(seed, loss_ppm);
                for (key, value) in variant.sysctls {
                    params.set(key, value)?;
                }
                for (key, value) in set {
                    params.set(key, value)?;
                }
                plans.push(Plan {
                    experiment: self.name,
                    variant: variant.name,
                    name: format!("{}/{}%", variant.name, params.loss_percent()),
                    params,
                });
            }
        }
        Ok(plans)
    }
}
