//! Compiles `driver.c`, which loads the shared object as packetdrill does, and runs its scenarios, each in a process of its own.
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;
use std::{env, fs};

/// Set to 1 where tests must not skip what needs programs or privileges.
const REQUIRE: &str = "LOWWATER_REQUIRE_NET";
/// The driver's exit code for "something is missing", which it names.
const LACKS: i32 = 77;
/// A scenario that takes longer hangs; each takes well under a second.
const HANGS: Duration = Duration::from_secs(120);
/// What a failed run begins its last words with.
const LAST_WORDS: &str = "the run failed";
/// What is said where a script waits for a packet in vain.
const NOTHING_LEFT: &str = "lowwater: nothing is left that could ever send a packet";
/// A program at any address whose table is read-only (how distributions build), and one at a fixed address that binds late.
const PIE: &[&str] = &["-fPIE", "-pie", "-Wl,-z,relro,-z,now"];
const FIXED: &[&str] = &["-fno-pie", "-no-pie", "-Wl,-z,lazy"];
/// Calls without a table of jumps: the addresses stand among the data.
const DIRECT: &[&str] = &["-fPIE", "-pie", "-fno-plt", "-Wl,-z,relro,-z,now"];
/// Without a segment that is read-only after relocation.
const BARE: &[&str] = &["-fPIE", "-pie", "-Wl,-z,norelro,-z,lazy"];
/// The three worlds of packetdrill's usual runner.
const MODES: [&str; 3] = ["ipv4", "mapped", "ipv6"];

/// packetdrill's command line as its own runner writes it, over IPv4 and over IPv6.
const RUNNER: [&[&str]; 2] = [
    &[
        "--send_omit_free",
        "--local_ip=192.168.0.2",
        "--gateway_ip=192.168.0.1",
        "--netmask_ip=255.255.0.0",
        "--remote_ip=192.0.2.1",
        "-D",
        "TFO_COOKIE=de4f234f0f433a55",
        "script.pkt",
    ],
    &[
        "--send_omit_free",
        "--ip_version=ipv6",
        "--mtu=1520",
        "--local_ip=fd3d:fa7b:d17d::0",
        "--gateway_ip=fd3d:fa7b:d17d:8888::0",
        "--remote_ip=2001:DB8::1",
        "-D",
        "TFO_COOKIE=6aa6ae70c288023b",
        "script.pkt",
    ],
];

/// The shared object, which cargo puts beside the tests that belong to it.
fn library() -> PathBuf {
    let tests = env::current_exe().unwrap();
    let path = tests.parent().unwrap().join("liblowwater_packetdrill.so");
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// Compiles the driver; `Err` names what is missing.
fn compile(name: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver.c");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("driver-{name}-{}", std::process::id()));
    let done = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"])
        .args(flags)
        .args(["-o".as_ref(), out.as_os_str(), source.as_os_str()])
        .args(["-lpthread", "-ldl"])
        .output();
    match done {
        Ok(done) if done.status.success() => Ok(out),
        Ok(done) => panic!("cc: {}", String::from_utf8_lossy(&done.stderr)),
        Err(e) if e.kind() == ErrorKind::NotFound => Err("cc".to_owned()),
        Err(e) => panic!("cc: {e}"),
    }
}

/// The driver as a program at any address.
fn driver() -> Option<&'static Path> {
    static DRIVER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    DRIVER.get_or_init(|| compile("pie", PIE)).as_deref().map_err(|lack| skip(lack)).ok()
}

fn skip(lack: &str) {
    assert!(env::var_os(REQUIRE).is_none_or(|v| v != "1"), "{REQUIRE}=1, but this test needs {lack}");
    eprintln!("skipped: needs {lack}");
}

fn run(driver: &Path, scenario: &str, mode: &str, seed: u32) -> Output {
    let runner = scenario.starts_with("runner").then(|| RUNNER[usize::from(mode == "ipv6")]);
    let child = Command::new(driver)
        .arg(library())
        .args([scenario, mode])
        .args(runner.into_iter().flatten())
        .env("SEED", seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child, &format!("SEED={seed} {} LIBRARY {scenario} {mode}", driver.display()))
}

/// Waits for the end; what hangs is ended, and fails.
fn finish(mut child: Child, what: &str) -> Output {
    let pause = Duration::from_millis(5);
    for _ in 0..HANGS.as_millis() / pause.as_millis() {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap();
        }
        thread::sleep(pause);
    }
    child.kill().unwrap();
    let mut said = String::new();
    _ = child.stderr.take().unwrap().read_to_string(&mut said);
    _ = child.wait();
    panic!("{what}: hangs\n{said}");
}

fn passes_in(driver: &Path, scenario: &str, mode: &str) {
    passes_with(driver, scenario, mode, 1);
}

fn passes_with(driver: &Path, scenario: &str, mode: &str, seed: u32) {
    let done = run(driver, scenario, mode, seed);
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.code() == Some(LACKS) {
        return skip(said.trim());
    }
    let how = format!("SEED={seed} {} {} {scenario} {mode}", driver.display(), library().display());
    assert!(done.status.success(), "{how}: {}\n{said}", done.status);
    assert!(!said.contains(LAST_WORDS), "{how}: nothing has failed\n{said}");
    assert!(done.stdout.is_empty(), "{how}: standard output is packetdrill's own");
    let known = |line: &str| line == NOTHING_LEFT || matches!(scenario, "noise" | "busy");
    assert!(said.lines().all(known), "{how}: there is nothing to tell\n{said}");
}

fn passes(scenario: &str) {
    let Some(driver) = driver() else { return };
    passes_in(driver, scenario, "ipv4");
}

fn passes_in_every_mode(scenario: &str) {
    let Some(driver) = driver() else { return };
    MODES.iter().for_each(|mode| passes_in(driver, scenario, mode));
}

/// The process ends with 1, and says why.
fn refuses(scenario: &str, why: &str) {
    let Some(driver) = driver() else { return };
    let done = run(driver, scenario, "ipv4", 1);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_passive_open_with_data_both_ways_and_close() {
    passes_in_every_mode("passive");
}

#[test]
fn an_active_open_that_closes_first() {
    passes_in_every_mode("active");
}

#[test]
fn options_of_the_syn_stand_in_linuxs_order() {
    passes_in_every_mode("options");
}

#[test]
fn errnos_and_bad_pointers() {
    passes("errors");
}

#[test]
fn what_a_script_gives_up_its_calls_lack() {
    passes_in_every_mode("privileges");
}

#[test]
fn packets_beyond_the_mtu_and_closes_that_reset() {
    passes_in_every_mode("large");
}

#[test]
fn messages_with_buffers_and_control_data() {
    passes("messages");
}

#[test]
fn entries_of_the_error_queue_with_times_of_the_same_clock() {
    passes_in_every_mode("error_queue");
}

#[test]
fn epoll_gives_data_back_verbatim_and_leaves_the_rest_alone() {
    passes("epoll");
}

#[test]
fn libcs_getsockopt_close_and_sendfile_reach_our_sockets() {
    let Some(driver) = driver() else { return };
    passes_in(driver, "snippets", "ipv4");
    for (name, flags) in [("fixed", FIXED), ("direct", DIRECT), ("bare", BARE)] {
        match compile(name, flags) {
            Ok(driver) => passes_in(&driver, "snippets", "ipv4"),
            Err(lack) => skip(&lack),
        }
    }
}

#[test]
fn numbers_that_libc_has_closed_harm_nobody() {
    passes("second_belt");
}

#[test]
fn datagrams_with_their_senders() {
    passes_in_every_mode("datagrams");
}

#[test]
fn what_routers_say_with_no_more_quoted_than_packetdrill_does() {
    passes_in_every_mode("icmp");
}

#[test]
fn pipes_and_splice() {
    passes("pipes");
}

#[test]
fn calls_of_a_second_thread_sleep_and_end_at_their_instant() {
    passes_in_every_mode("blocking");
}

#[test]
fn a_result_is_worked_on_while_the_main_thread_sleeps() {
    passes_in_every_mode("result_after_sleep");
}

#[test]
fn a_call_ends_while_packetdrill_waits_for_it_and_a_command_that_sleeps_takes_time() {
    passes("awaited");
}

#[test]
fn the_clock_lets_packetdrill_find_its_beginning() {
    passes("calibration");
}

#[test]
fn the_end_of_a_script_closes_and_resets_one_socket_after_the_other() {
    passes_in_every_mode("end_of_script");
}

#[test]
fn the_end_of_time_is_a_packet_of_no_bytes() {
    passes("end");
}

#[test]
fn a_thousand_virtual_seconds_cost_few_calls() {
    passes("timing");
}

#[test]
fn commands_see_the_counters_of_the_stack() {
    passes("counters");
}

#[test]
fn settings_are_those_of_the_namespace_at_that_time() {
    passes("settings");
}

#[test]
fn routes_are_those_of_the_namespace_at_that_time() {
    passes("routes");
}

#[test]
fn no_thread_and_little_memory() {
    passes("footprint");
}

#[test]
fn without_flags_both_families_work() {
    passes("no_flags");
}

#[test]
fn an_address_that_nobody_told_is_learnt() {
    passes_in_every_mode("drawn_address");
}

#[test]
fn the_addresses_and_the_cookies_of_packetdrills_runner() {
    let Some(driver) = driver() else { return };
    for (scenario, mode) in [("runner_v4", "ipv4"), ("runner_v4", "mapped"), ("runner_v6", "ipv6")] {
        passes_in(driver, scenario, mode);
    }
}

#[test]
fn a_script_that_came_through_a_pipe_is_not_read_again() {
    let Some(driver) = driver() else { return };
    // The second run of a process has the second word that is no option for its script: here the name of the scenario.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pipe-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("no_flags")).status().unwrap().success());
    let child = Command::new(driver)
        .arg(library())
        .args(["no_flags", "ipv4"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let done = finish(child, "no_flags beside a pipe of that name");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_script_with_commands_has_a_device() {
    let Some(driver) = driver() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("device-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // As above, the script of the second run has the name of the scenario.
    fs::write(folder.join("device"), "`tc qdisc add dev tun0 root pfifo`\n").unwrap();
    for mode in ["ipv4", "ipv6"] {
        let mut command = Command::new(driver);
        command.arg(library()).args(["device", mode, "--so_filename=this"]).current_dir(&folder);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let done = finish(child, "a script with commands");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        match done.status.code() {
            Some(LACKS) => skip(said.trim()),
            code => assert_eq!((code, said.as_str()), (Some(0), ""), "{mode}"),
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn several_scripts_in_one_process_leave_nothing_behind() {
    passes_in_every_mode("scripts");
}

#[test]
fn sockets_take_no_standard_streams_numbers() {
    passes("no_streams");
}

#[test]
fn calls_without_a_machine_are_refused() {
    passes("after_free");
}

#[test]
fn calls_and_packets_that_nobody_should_make_harm_nobody() {
    let Some(driver) = driver() else { return };
    for seed in 1..=4 {
        MODES.iter().for_each(|mode| passes_with(driver, "noise", mode, seed));
    }
}

#[test]
fn two_threads_with_calls_at_any_time_and_an_end_below_one_of_them() {
    let Some(driver) = driver() else { return };
    for seed in 1..=4 {
        MODES.iter().for_each(|mode| passes_with(driver, "busy", mode, seed));
    }
}

#[test]
fn one_name_is_exported() {
    let names = match Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output() {
        Ok(done) => String::from_utf8(done.stdout).unwrap(),
        Err(_) => return skip("nm"),
    };
    let names: Vec<_> = names.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["packetdrill_interface_init"]);
}

#[test]
fn an_unknown_flag_ends_the_process() {
    refuses("bad_flag", "no flag 'tso'");
    refuses("bad_text", "no UTF-8");
}

#[test]
fn a_failed_run_tells_what_the_stack_did_last() {
    refuses("failure", LAST_WORDS);
    refuses("failure", "state SYN-RECV -> ESTAB");
    // Another thread may have the stack just then, which is no reason to wait for it.
    refuses("abandoned", "");
    refuses("abandoned_by_the_second", "");
}

#[test]
fn a_call_that_blocks_for_ever_ends_the_process() {
    refuses("deadlock", "nothing will ever happen");
}
