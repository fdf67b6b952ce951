//! In which of packetdrill's three modes a script runs, and why not in the others.
//!
//! packetdrill's runner takes every script through IPv4, IPv4 by AF_INET6 sockets, and IPv6. A script that speaks of one of them cannot
//! run in the others: it says so by its own `--ip_version` or in a line `// modes: ipv4, ipv4-mapped-ipv6: WHY` of its head, or its words do:
//! AF_INET, an address, an ICMP message that ICMPv6 does not have.
use crate::config::Family;
use crate::failure::Failure;
use crate::files::head;
use crate::parse;
use core::net::Ipv4Addr;
use std::path::Path;

/// So begins the line that names the modes.
const MARK: &str = "modes:";
/// What stands before an address or says which kind it is; AF_INET6 sockets have another.
const OF_IPV4: [&str; 2] = ["AF_INET", "inet_addr"];

/// Why a script does not run in this mode; `None` where it does.
///
/// # Errors
/// Options in front that cannot be read, and a line of modes that names none.
pub fn left_out(text: &str, family: Family) -> Result<Option<String>, Box<Failure>> {
    let options = parse::options(text)?;
    let own = options.iter().rev().find(|option| option.name == "ip_version");
    if let Some(own) = own.and_then(|option| option.value.as_deref()) {
        return Ok((own.parse() != Ok(family)).then(|| format!("its own --ip_version={own}")));
    }
    let Some(line) = head(text).find_map(|line| line.strip_prefix(MARK)) else {
        return Ok(told_by_words(text, family));
    };
    let wrong = || Failure::new(1, format!("'// {MARK} ipv4, ipv6: WHY' names modes and why, not '{line}'"));
    let (modes, why) = line.split_once(':').ok_or_else(wrong)?;
    let modes: Result<Vec<Family>, _> = modes.split(',').map(|mode| mode.trim().parse()).collect();
    let modes = modes.map_err(|_| wrong())?;
    let why = why.trim().to_owned();
    if why.is_empty() { Err(wrong()) } else { Ok((!modes.contains(&family)).then_some(why)) }
}

/// packetdrill's runner takes `..v4.pkt` through no mode of IPv6's packets, and `..v6.pkt` through that alone; why not in this mode. What a
/// script says itself counts more.
pub(crate) fn left_out_by_name(path: &Path, text: &str, family: Family) -> Option<String> {
    let says = parse::options(text).is_ok_and(|all| all.iter().any(|option| option.name == "ip_version"))
        || head(text).any(|line| line.starts_with(MARK));
    let name = path.file_name()?.to_str()?;
    let others = if family == Family::V6 { "v4.pkt" } else { "v6.pkt" };
    (!says && name.ends_with(others)).then(|| format!("its name ends with {others}"))
}

/// The words of a script that only IPv4 has, for a mode that does not have them.
fn told_by_words(text: &str, family: Family) -> Option<String> {
    // A mask in front is of IPv4 where there is IPv4.
    let said = |line: &str| {
        let line = line.split("//").next().unwrap_or_default();
        let words = line.split_whitespace().filter(|word| !word.starts_with("--netmask_ip="));
        words.collect::<Vec<_>>().join(" ")
    };
    let found = |line: String| {
        let words: Vec<&str> = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).collect();
        let named = words.iter().find(|word| OF_IPV4.contains(word));
        if let Some(word) = named.filter(|_| family != Family::V4) {
            return Some(format!("it says {word}"));
        }
        if family != Family::V6 {
            return None;
        }
        let address = words.iter().find(|word| word.parse::<Ipv4Addr>().is_ok());
        address.map(|address| format!("it names {address}")).or_else(|| icmp_of_ipv4(&line))
    };
    text.lines().map(said).find_map(found)
}

/// An ICMP message that ICMPv6 does not have by this name.
fn icmp_of_ipv4(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "icmp").skip(1);
    let kind = words.next().filter(|kind| !kind.starts_with("type_"))?;
    let code = words.next().unwrap_or_default();
    let named = code.starts_with(|c: char| c.is_ascii_alphabetic())
        && !matches!(code, "mtu" | "id")
        && !code.starts_with("code_");
    let code = if named { code } else { "" };
    // What is no word of IPv4 either stands for something else (`--define`).
    let of_ipv4 = parse::has_words(false, kind, code) && !parse::has_words(true, kind, code);
    of_ipv4.then(|| format!("ICMPv6 has no {}", format!("{kind} {code}").trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(text: &str) -> [Option<String>; 3] {
        Family::ALL.map(|family| left_out(text, family).unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn a_script_that_speaks_of_no_family_runs_in_all() {
        let text = "// It has no AF_INET and no 1.2.3.4.\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
                    +0 < icmp unreachable port_unreachable [1:2(1)]\n+0 < icmp type_12 code_0 [1:2(1)]\n";
        assert_eq!(reasons(text), [None, None, None]);
    }

    #[test]
    fn its_own_version_leaves_out_the_others() {
        let [v4, mapped, v6] = reasons("--ip_version=ipv6\n0 socket(AF_INET6, SOCK_STREAM, 0) = 3\n");
        assert_eq!((v4.as_deref(), v6), (Some("its own --ip_version=ipv6"), None));
        assert!(mapped.is_some());
    }

    #[test]
    fn its_head_may_name_modes_with_the_reason() {
        let [v4, mapped, v6] =
            reasons("// Shows this.\n// modes: ipv4, ipv4-mapped-ipv6: bytes of headers\n0 x\n");
        assert_eq!((v4, mapped, v6.as_deref()), (None, None, Some("bytes of headers")));
        for wrong in ["// modes: ipv4", "// modes: ipv5: why", "// modes: ipv4:", "// modes: : why"] {
            let e = left_out(wrong, Family::V4).expect_err(wrong);
            assert!(e.what.contains("names modes"), "{e}");
        }
        // Behind the first line that is no comment it is no head.
        assert_eq!(reasons("0 x\n// modes: ipv4: why\n"), [None, None, None]);
    }

    #[test]
    fn a_name_leaves_out_the_modes_that_packetdrills_runner_leaves_out() {
        let out = |name: &str, text: &str| {
            Family::ALL.map(|family| left_out_by_name(Path::new(name), text, family).is_some())
        };
        assert_eq!(out("a/b-v4.pkt", "0 x\n"), [false, false, true]);
        assert_eq!(out("a/b_v6.pkt", "0 x\n"), [true, true, false]);
        assert_eq!(out("v6.pkt/b.pkt", "0 x\n"), [false; 3]);
        assert_eq!(out("b-v6.pkt", "--ip_version=ipv4\n0 x\n"), [false; 3]);
        assert_eq!(out("b-v6.pkt", "// modes: ipv4: why\n0 x\n"), [false; 3]);
    }

    #[test]
    fn words_of_one_family_leave_out_the_others() {
        for (line, mapped, v6) in [
            ("socket(AF_INET, SOCK_STREAM, 0) = 3", Some("it says AF_INET"), Some("it says AF_INET")),
            ("socket(AF_INET6, SOCK_STREAM, 0) = 3", None, None),
            ("< 192.0.2.9:2000 > 192.168.0.1:8080: S 5:5(0)", None, Some("it names 192.0.2.9")),
            (
                "< icmp unreachable frag_needed mtu 700 [1:2(1)]",
                None,
                Some("ICMPv6 has no unreachable frag_needed"),
            ),
            ("< icmp source_quench [1:2(1)]", None, Some("ICMPv6 has no source_quench")),
            ("< icmp echo_request id 7", None, None),
            ("< icmp unreachable [1:2(1)]", None, None),
        ] {
            let reasons = reasons(&format!("--netmask_ip=255.0.0.0 --mtu=1500\n0 {line}\n"));
            assert_eq!(reasons.each_ref().map(Option::as_deref), [None, mapped, v6], "{line}");
        }
    }
}
