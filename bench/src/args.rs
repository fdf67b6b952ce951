//! The command lines of the benchmarks: `--name VALUE`, looked through as a whole before anything runs, so that a misspelt
//! option does not measure something else.
use std::fmt::Display;
use std::process::exit;

/// Options of all benchmarks: each lets those of the others through, since `cargo xtask bench` hands its own to both of its programs.
const NAMES: [&str; 12] = [
    "--busy-poll",
    "--congestion",
    "--flows",
    "--gb",
    "--message",
    "--mtu",
    "--only",
    "--pairs",
    "--place",
    "--seconds",
    "--what",
    "--work",
];
/// Exit code for command lines that make no sense.
const USAGE: i32 = 2;

/// Prints `usage` and ends the process when `--help` is asked for (code 0) or an argument makes no sense (code 2).
pub fn check(usage: &str) {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("usage: {usage}");
        exit(0);
    }
    if let Some(fault) = fault(&args) {
        eprintln!("{fault}\nusage: {usage}");
        exit(USAGE);
    }
}

/// The number after `name`, or `default`. Ends the process (code 2) when it is outside of `least..=most` or no number.
#[must_use]
pub fn number(name: &str, default: u64, least: u64, most: u64) -> u64 {
    let Some(value) = word(name) else { return default };
    match value.parse() {
        Ok(number) if (least..=most).contains(&number) => number,
        _ => refuse(name, &format_args!("a whole number from {least} to {most}"), &value),
    }
}

/// The numbers after `name`, with commas; none without it. Ends the process (code 2) when one is outside of `least..=most` or no number.
#[must_use]
pub fn numbers(name: &str, least: u64, most: u64) -> Option<Vec<u64>> {
    let words = word(name)?;
    let number = |word: &str| word.parse().ok().filter(|number| (least..=most).contains(number));
    match words.split(',').map(number).collect() {
        Some(numbers) => Some(numbers),
        None => refuse(name, &format_args!("whole numbers from {least} to {most}, with commas"), &words),
    }
}

/// The word after `name`.
#[must_use]
pub fn word(name: &str) -> Option<String> {
    std::env::args().skip_while(|arg| arg != name).nth(1)
}

/// Ends the process (code 2), since `name` takes `what` and not `value`.
pub fn refuse(name: &str, what: &dyn Display, value: &str) -> ! {
    eprintln!("{name} takes {what}, not {value}");
    exit(USAGE)
}

/// What is wrong with the arguments.
fn fault(args: &[String]) -> Option<String> {
    args.chunks(2).find_map(|pair| match pair {
        [name, ..] if !NAMES.contains(&name.as_str()) => Some(format!("there is no option {name}")),
        [name] => Some(format!("{name} takes a value")),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_benchmark_knows_is_refused() {
        let said = |line: &str| fault(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(said(""), None);
        assert_eq!(said("--gb 1 --seconds 2"), None);
        assert_eq!(said("--gbs 1").as_deref(), Some("there is no option --gbs"));
        assert_eq!(said("--gb 1 2").as_deref(), Some("there is no option 2"));
        assert_eq!(said("--gb 1 --mtu").as_deref(), Some("--mtu takes a value"));
    }
}
