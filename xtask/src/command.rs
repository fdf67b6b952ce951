//! Runs other programs from the workspace's root and says plainly when they fail.
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a chore answers: nothing, or one sentence that says why it failed.
pub(crate) type Outcome = Result<(), String>;

/// The root of the workspace: the parent of this crate, where cargo runs it, else where it was built.
pub(crate) fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let own = own.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    own.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// `cargo` with these arguments at the root.
pub(crate) fn cargo<S: AsRef<str>>(args: &[S]) -> Command {
    program(&cargo_name(), args)
}

/// The cargo that runs this, else the one that is found.
pub(crate) fn cargo_name() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Any program with these arguments at the root.
pub(crate) fn program<S: AsRef<str>>(name: &str, args: &[S]) -> Command {
    let mut command = Command::new(name);
    command.args(args.iter().map(AsRef::as_ref)).current_dir(root());
    command
}

/// Runs to the end; an exit code other than zero is a failure.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|e| format!("{}: {e}", describe(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", describe(command))) }
}

/// Becomes this program: Ctrl-C and the exit code are its own.
pub(crate) fn become_it(command: &mut Command) -> Outcome {
    let e = command.exec();
    Err(format!("{}: {e}", describe(command)))
}

/// Runs to the end, hands its standard output through line by line, and shows each line to `watch`.
pub(crate) fn run_watched(command: &mut Command, watch: &mut dyn FnMut(&str)) -> Outcome {
    use std::io::{BufRead as _, BufReader};
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|e| format!("{}: {e}", describe(command)))?;
    let pipe = child.stdout.take().expect("stdout is piped");
    for line in BufReader::new(pipe).split(b'\n') {
        let line = line.map_err(|e| format!("{}: {e}", describe(command)))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        watch(&line);
    }
    let status = child.wait().map_err(|e| format!("{}: {e}", describe(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", describe(command))) }
}

/// Runs to the end and gives back its standard output, whatever the end.
pub(crate) fn heard(command: &mut Command) -> (String, Outcome) {
    match command.stderr(Stdio::inherit()).output() {
        Ok(ended) => {
            let failed = || format!("{}: {}", describe(command), ended.status);
            let outcome = ended.status.success().then_some(()).ok_or_else(failed);
            (String::from_utf8_lossy(&ended.stdout).into_owned(), outcome)
        }
        Err(e) => (String::new(), Err(format!("{}: {e}", describe(command)))),
    }
}

/// The command as one could type it.
pub(crate) fn describe(command: &Command) -> String {
    let mut words =
        vec![Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}
