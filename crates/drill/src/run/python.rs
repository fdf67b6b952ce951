//! The program that packetdrill makes of a script's snippets: each with the values of its moment in front, all run by Python at the end.
use super::Runner;
use super::info;
use super::snippet::Facts;
use crate::failure::Failure;
use crate::names;
use std::fmt::Write as _;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::process::Command;

/// What packetdrill's program begins with: modules that snippets need not import, and the two by which a failure names the file and the line.
const HEAD: &str = "import sys, traceback\n_file, _line = None, 0\n";
/// How the program names the line in the script of what follows.
const LINE: &str = "_line = ";
/// What it exits with when the program has failed, as the last lines of stderr say then.
const WRONG: i32 = 3;
const WRONG_LINES: usize = 4;
/// Seconds that a program may take, and bytes that it may print.
const SECONDS: u64 = 60;
const SAID_MAX: usize = 1 << 20;
/// Runs a program and tells where it fails: the line, the kind of exception, its text, and the values of what that line names, none of them
/// longer than one can read. Modules are Python's own, not files that lie where drill was started. The alarm is for a drill that was killed.
const RUN: &str = r"
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import os, re, reprlib, signal, traceback
signal.alarm(90)
program, world, name = sys.stdin.read(), {}, '<snippets>'
short = reprlib.Repr()
short.maxlist = short.maxtuple = 20
short.maxstring = short.maxlong = short.maxother = 200
def said(tell, value):
    try:
        return tell(value)[:2000]
    except Exception:
        return '(' + type(value).__name__ + ')'
try:
    exec(compile(program, name, 'exec'), world)
except BaseException as e:
    if isinstance(e, SystemExit) and not e.code:
        sys.exit(0)
    sys.stdout.flush()
    frames = [f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == name]
    at = e.lineno if isinstance(e, SyntaxError) and e.filename == name else frames[-1] if frames else 1
    lines = program.split('\n')
    names = dict.fromkeys(re.findall(r'[A-Za-z_]\w*', lines[at - 1] if at <= len(lines) else ''))
    plain = lambda n: not n.startswith(('TCP_', 'TCPI_')) and isinstance(world.get(n), (int, float, str, list, tuple))
    values = ', '.join(n + ' = ' + said(short.repr, world[n]) for n in names if plain(n))
    told = (at, type(e).__name__, said(str, e), values)
    print(*('\n' + ' '.join(str(line).split()) for line in told), sep='', file=sys.stderr)
    sys.stderr.flush()
    os._exit(3)
";
/// Constants that snippets have. packetdrill knows most of them.
const CONSTANTS: [&str; 36] = [
    "TCP_ESTABLISHED",
    "TCP_SYN_SENT",
    "TCP_SYN_RECV",
    "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2",
    "TCP_TIME_WAIT",
    "TCP_CLOSE",
    "TCP_CLOSE_WAIT",
    "TCP_LAST_ACK",
    "TCP_LISTEN",
    "TCP_CLOSING",
    "TCP_CA_Open",
    "TCP_CA_Disorder",
    "TCP_CA_CWR",
    "TCP_CA_Recovery",
    "TCP_CA_Loss",
    "TCPI_OPT_TIMESTAMPS",
    "TCPI_OPT_WSCALE",
    "TCPI_OPT_ECN",
    "TCPI_OPT_SYN_DATA",
    "TCPI_OPT_SACK",
    "TCPI_OPT_ECN_SEEN",
    "TCPI_OPT_USEC_TS",
    "TCPI_OPT_TFO_CHILD",
    "TCPI_ECN_MODE_DISABLED",
    "TCPI_ECN_MODE_RFC3168",
    "TCPI_ECN_MODE_ACCECN",
    "TCPI_ECN_MODE_PENDING",
    "TCP_ACCECN_OPT_NOT_SEEN",
    "TCP_ACCECN_OPT_EMPTY_SEEN",
    "TCP_ACCECN_OPT_COUNTER_SEEN",
    "TCP_ACCECN_OPT_FAIL_SEEN",
    "TCP_ACCECN_ACE_FAIL_SEND",
    "TCP_ACCECN_ACE_FAIL_RECV",
    "TCP_ACCECN_OPT_FAIL_SEND",
    "TCP_ACCECN_OPT_FAIL_RECV",
];

/// A snippet with what it knew.
pub(super) struct Noted {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) facts: Facts,
}

/// All snippets of a script as one program; empty without any.
pub(super) fn program(noted: &[Noted]) -> String {
    let mut program = if noted.is_empty() { String::new() } else { HEAD.to_owned() };
    let constant = |name: &str| names::constant(name).map(i128::from);
    for Noted { line, text, facts } in noted {
        let values = info::names().map(|name| {
            let value = facts.get(&name);
            (name, value)
        });
        let constants = CONSTANTS.iter().map(|name| ((*name).to_owned(), constant(name)));
        for (name, value) in values.chain(constants) {
            if let Some(value) = value {
                // Writing to a string cannot fail.
                let _ = writeln!(program, "{name} = {value}");
            }
        }
        let _ = writeln!(program, "{LINE}{line}\n{text}\n");
    }
    program
}

/// The script's line of a line of the program.
fn script_line(program: &str, at: usize) -> usize {
    let before: Vec<&str> = program.lines().take(at).collect();
    let begins = |(n, line): (usize, &&str)| Some((n, line.strip_prefix(LINE)?.parse::<usize>().ok()?));
    let snippet = before.iter().enumerate().rev().find_map(begins);
    snippet.map_or(1, |(n, line)| line + at.saturating_sub(n + 2))
}

impl Runner<'_> {
    /// Lets Python run the snippets where one of them was more than our own evaluator reads: all of them, as packetdrill does.
    pub(super) fn hand_over(&mut self) -> Result<(), Box<Failure>> {
        let Some(mut ours) = self.snippets.handed.take() else { return Ok(()) };
        let program = program(&self.snippets.noted);
        let none =
            || "--code_command=none says that no Python reads what our own evaluator cannot".to_owned();
        let ran = self
            .config
            .python
            .as_ref()
            .ok_or_else(none)
            .and_then(|words| interpret(words, self.folder, &program));
        let said = match ran {
            Ok(said) => said,
            Err(why) => {
                ours.failure.what = format!("{} ({why})", ours.failure.what);
                return Err(ours.failure);
            }
        };
        self.snippets.env.printed = said.printed.lines().map(str::to_owned).collect();
        let Some((at, kind, message, values)) = said.wrong() else { return Ok(()) };
        let what = match (kind, message) {
            ("AssertionError", "") => "the assertion does not hold".to_owned(),
            ("AssertionError", message) => format!("the assertion does not hold: {message}"),
            // What went wrong here as well is told in our own words.
            _ if ours.is_read && ours.failure.line == script_line(&program, at) => return Err(ours.failure),
            _ => format!("Python says {kind}: {message}"),
        };
        if kind != "AssertionError" {
            // The line of our program, which Python puts behind a fault of the language, says nothing to anybody.
            let what = what.split(" (<snippets>").next().unwrap_or_default();
            return Err(Failure::new(script_line(&program, at), what));
        }
        let source = program.lines().nth(at.saturating_sub(1)).unwrap_or_default().trim();
        let source = source.strip_prefix("assert ").unwrap_or(source);
        Err(Failure::differs(script_line(&program, at), what, source, values))
    }
}

/// What a run of Python left.
struct Said {
    printed: String,
    /// Its last lines are line of the program, kind of exception, its text, values. Empty when all went well.
    wrong: String,
}

impl Said {
    fn wrong(&self) -> Option<(usize, &str, &str, &str)> {
        let lines: Vec<&str> = self.wrong.lines().collect();
        let [at, kind, text, values] = lines.last_chunk::<WRONG_LINES>()?;
        Some((at.parse().ok()?, kind, text, values))
    }
}

/// Runs a program by these words, where a path is looked for from `folder`; why it cannot be run.
#[cfg(target_os = "linux")]
fn interpret(words: &[String], folder: &Path, program: &str) -> Result<Said, String> {
    use lowwater_os::program::{End, Limits, run};
    let (python, own) = words.split_first().ok_or("there is no program's name to read it by")?;
    let mut command = match python.contains('/') {
        true => Command::new(folder.join(python)),
        false => Command::new(python),
    };
    command.args(own).args(["-c", RUN]);
    let time = core::time::Duration::from_secs(SECONDS);
    let limits = Limits { time, silence: time, output: SAID_MAX };
    let ran = run(command, program.as_bytes(), limits).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => format!("there is no {python} to read it"),
        _ => format!("{python}: {e}"),
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = Said { printed: text(&ran.stdout), wrong: text(&ran.stderr) };
    match ran.end {
        End::Exited(status) if status.success() => Ok(Said { wrong: String::new(), ..said }),
        End::Exited(status) if status.code() == Some(WRONG) && said.wrong().is_some() => Ok(said),
        End::Exited(status) => Err(format!("{python} ended with {status}: {}", said.wrong.trim())),
        End::TooLong | End::Silent => {
            Err(format!("{python} took longer than the {SECONDS} s that snippets have together"))
        }
        End::TooMuch => {
            Err(format!("{python} printed more than the {SAID_MAX} bytes that snippets have together"))
        }
        End::Stopped => Err(format!("{python} was stopped")),
    }
}

#[cfg(not(target_os = "linux"))]
fn interpret(_: &[String], _: &Path, _: &str) -> Result<Said, String> {
    Err("Python runs snippets on Linux alone".to_owned())
}
