//! Sysctls of the lab in the guest: what Linux 6.1 has under the same name, and a sentence about what it has not.
use crate::hosts::{Host, set_for_all};
use crate::run::Run;
use std::fs;

/// Settings of this stack alone, or of later kernels, whose other values Linux 6.1 cannot have.
const UNKNOWN: [&str; 11] = [
    "notsent_lowat_half",
    "tcp_limit_output_all",
    "tcp_queue_aware",
    "tcp_rto_min_us",
    "tcp_rto_max_ms",
    "tcp_delack_max_us",
    "clock_resolution_ns",
    "tcp_syn_linear_timeouts",
    "tcp_shrink_window",
    "tcp_pingpong_thresh",
    "tcp_tw_reuse_delay",
];
/// Settings by which this stack follows one kernel or another: the guest is one of them, whatever they say.
const KERNEL: [&str; 3] = ["tcp_grow_packet", "max_tcp_header", "cubic_tick_us"];
/// Those that a kernel has once, with what all experiments have where nothing else is said: Linux chooses by the machine's memory.
const FOR_ALL: [(&str, &str, &str); 4] = [
    ("tcp_mem", "ipv4/tcp_mem", "95325 127100 190650"),
    ("rmem_max", "core/rmem_max", "4194304"),
    ("wmem_max", "core/wmem_max", "4194304"),
    ("tcp_max_orphans", "ipv4/tcp_max_orphans", "65536"),
];
/// CUBIC's parameter of its module, and the way out of slow start.
const HYSTART: &str = "/sys/module/tcp_cubic/parameters/hystart";
/// What lies below `net.core`, for each host.
const CORE: [&str; 1] = ["somaxconn"];
/// Controllers that both have.
const CONTROLLERS: [&str; 3] = ["cubic", "reno", "bbr"];

/// What Linux 6.1 cannot follow.
pub(crate) fn check(run: &Run) -> Result<(), String> {
    for (name, value) in &run.sysctl {
        match name.as_str() {
            name if UNKNOWN.contains(&name) => return Err(format!("Linux 6.1 has no {name}")),
            "hystart" if value == "2" => return Err("Linux's CUBIC has no HyStart++ (hystart=2)".to_owned()),
            "tcp_congestion_control" if !CONTROLLERS.contains(&value.as_str()) => {
                return Err(format!("the guest has no controller {value}"));
            }
            "default_qdisc" | "rmem_default" | "wmem_default" => {
                return Err(format!("the guest does not follow {name}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Sets everything that is to be set, for all hosts and for these.
pub(crate) fn apply(hosts: &[&Host], run: &Run) -> Result<(), String> {
    for (name, path, usual) in FOR_ALL {
        set_for_all(path, run.sysctl(name).unwrap_or(usual))?;
    }
    let hystart = run.sysctl("hystart").unwrap_or("1");
    fs::write(HYSTART, hystart).map_err(|e| format!("{HYSTART} = {hystart}: {e}"))?;
    for (name, value) in &run.sysctl {
        let elsewhere = name == "hystart"
            || name.starts_with("sctp.")
            || KERNEL.contains(&name.as_str())
            || FOR_ALL.iter().any(|(known, ..)| known == name);
        if elsewhere {
            continue;
        }
        let folder = if CORE.contains(&name.as_str()) { "core" } else { "ipv4" };
        hosts.iter().try_for_each(|host| host.set_in(folder, name, value))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_has_not_is_said() {
        let of = |name: &str, value: &str| {
            let sysctl = vec![(name.to_owned(), value.to_owned())];
            check(&Run { sysctl, ..Run::default() })
        };
        assert_eq!(of("tcp_queue_aware", "1"), Err("Linux 6.1 has no tcp_queue_aware".to_owned()));
        assert!(of("hystart", "2").is_err() && of("hystart", "0").is_ok());
        assert!(of("tcp_congestion_control", "bbr").is_ok() && of("tcp_rmem", "1 2 3").is_ok());
    }
}
