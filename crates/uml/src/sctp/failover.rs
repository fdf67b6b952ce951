//! sctp-failover (E5) on Linux: a message every 10 ms, and the first of two paths goes dark.
use super::{Account, DELAY_MS, Shared, Variant, seconds, talk, world};
use crate::hosts::Host;
use crate::job::Measured;
use lowwater_os::Clock;
use std::thread;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(10);
/// Delivery is restored when messages take no longer (two round trips).
const USUAL_S: f64 = 0.04;

pub(crate) const VARIANTS: &[Variant] = &[
    Variant { name: "default", sets: &[], every: EVERY },
    Variant { name: "rto-min-200ms", sets: &[("rto_min", "200")], every: EVERY },
    Variant { name: "pf-off", sets: &[("pf_enable", "0")], every: EVERY },
    Variant { name: "pf-retrans-2", sets: &[("pf_retrans", "2")], every: EVERY },
    Variant {
        name: "pf-off-max-retrans-1",
        sets: &[("pf_enable", "0"), ("path_max_retrans", "1")],
        every: EVERY,
    },
    Variant {
        name: "pf-off-max-retrans-1-rto-min-200ms",
        sets: &[("pf_enable", "0"), ("path_max_retrans", "1"), ("rto_min", "200")],
        every: EVERY,
    },
];

pub(crate) fn run(name: &str, times: (f64, f64)) -> Result<Measured, String> {
    let variant = Variant::by_name(VARIANTS, name)?;
    let (a, b) = world(variant)?;
    let (clock, shared) = (Clock::start(), Shared::default());
    let (end, dark) = talk((&a, &b), (variant.every, times.0 + times.1), &shared, &clock, || {
        thread::sleep(Duration::from_secs_f64(times.0));
        let dark = seconds(&clock);
        darken(&a, "va0").and_then(|()| darken(&b, "vb0")).map(|()| dark)
    })?;
    let mut figures = shared.account(|account| reckon(account, dark, end));
    for (name, counter) in [("t3_rtx_expireds", "SctpT3RtxExpireds"), ("t3_retransmits", "SctpT3Retransmits")]
    {
        figures.push((name, a.sctp_counter(counter)? as f64));
    }
    Ok(figures)
}

/// The device loses everything from now on.
fn darken(host: &Host, dev: &str) -> Result<(), String> {
    host.command(&format!("tc qdisc change dev {dev} root netem delay {DELAY_MS}ms limit 100000 loss 100%"))
        .map(drop)
}

/// As the lab reckons (`SctpFailover` of the simulator).
fn reckon(account: &Account, dark: f64, end: f64) -> Measured {
    let (mut last, mut gap, mut longest, mut restored) = (dark, 0.0_f64, 0.0_f64, 0.0);
    for &(number, at) in &account.came {
        let Some(sent) = account.sent.get(number) else { continue };
        if at < dark {
            continue;
        }
        gap = gap.max(at - last);
        longest = longest.max(at - sent);
        if at - sent > USUAL_S {
            restored = at - dark;
        }
        last = at;
    }
    gap = gap.max(end.max(last) - last);
    let lost = account.seen().contains(&0);
    let mut figures = vec![
        ("delivery_gap_s_max", gap),
        ("restored_s", if lost { f64::INFINITY } else { restored }),
        ("message_delay_s_max", longest),
    ];
    figures.extend(account.figures());
    figures
}
