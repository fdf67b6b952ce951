//! What the lab prints: a bar on a terminal, a table or JSON on stdout, files in a directory.
use super::bounds::{NotCompared, OutOfBounds, out_of_bounds};
use super::catalog::{Experiment, Grid, Variant, number, report, setting_value};
use super::compare::{self, Role};
use super::runs::{Done, Event};
use super::seeds::together;
use super::{LabOptions, report as page, table};
use crate::failure::Failure;
use crate::out;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Steps of the bar per run.
const STEPS: f64 = 1_000.0;

/// Prints runs as they end.
pub(crate) struct Render {
    json: bool,
    bar: ProgressBar,
    fractions: Vec<f64>,
    out: Option<(PathBuf, File)>,
    report: Option<Page>,
    done: Vec<Done>,
    /// Nobody reads stdout any more, as behind `| head`; the files are written all the same.
    unread: bool,
}

/// The page for a browser. Whether it can be written is found out before the first run, so that nobody waits for runs whose page cannot be.
/// What was there stays until the page is written, and where there was nothing, nothing is made before: another lab in the same directory
/// could take a file that this one takes away again for its own.
struct Page {
    path: PathBuf,
    /// What was there already.
    there: Option<File>,
}

impl Page {
    fn open(path: &Path) -> io::Result<Self> {
        let there = match File::options().write(true).open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        if there.is_none() {
            can_create(path)?;
        }
        Ok(Self { path: path.to_owned(), there })
    }

    /// Writes the page, or leaves what there was where no run has ended; what is to be said about it.
    fn finish(self, text: Option<&str>) -> Result<String, Failure> {
        let Some(text) = text else {
            return Ok(format!("no run has ended: nothing was written to {}", self.path.display()));
        };
        self.write(text).map_err(|e| writing(&self.path, &e))?;
        Ok(format!("tables and pictures for a browser: {}", self.path.display()))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let Some(mut file) = self.there.as_ref().filter(|file| is_at(file, &self.path)) else {
            return std::fs::write(&self.path, text);
        };
        // What is no file, as /dev/stdout may be, has no length to set.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        file.write_all(text.as_bytes())
    }
}

/// Whether that file still has that name.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(named)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (file.dev(), file.ino()) == (named.dev(), named.ino())
}

/// Whether a file can be made there; none is.
fn can_create(path: &Path) -> io::Result<()> {
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(accessat(CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Whether a page can be written there; nothing is.
pub(crate) fn can_write(path: &Path) -> io::Result<()> {
    Page::open(path).map(drop)
}

impl Render {
    /// Before the first run.
    pub(crate) fn start(options: &LabOptions, runs: usize) -> Result<Self, Failure> {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(runs as u64 * STEPS as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} {msg}") {
            bar.set_style(style);
        }
        let out = match &options.out {
            None => None,
            Some(dir) if dir.exists() && !dir.is_dir() => {
                return Err(Failure::other(format!(
                    "--out takes a directory, and {} is none",
                    dir.display()
                )));
            }
            Some(dir) => {
                let file = std::fs::create_dir_all(dir).and_then(|()| File::create(dir.join("runs.jsonl")));
                Some((dir.clone(), file.map_err(|e| writing(dir, &e))?))
            }
        };
        let page = |path: &PathBuf| Page::open(path).map_err(|e| writing(path, &e));
        let report = options.report.as_ref().map(page).transpose()?;
        Ok(Self {
            json: options.json,
            bar,
            fractions: vec![0.0; runs],
            out,
            report,
            done: Vec::new(),
            unread: false,
        })
    }

    /// Something happened.
    pub(crate) fn on_event(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Progress(index, fraction) => {
                self.fractions[index] = fraction;
                let waiting = self.fractions.iter().skip(self.done.len());
                self.bar.set_position(((self.done.len() as f64 + waiting.sum::<f64>()) * STEPS) as u64);
                Ok(())
            }
            Event::Done(done) => {
                self.bar.set_message(format!("{} {}", done.plan.experiment.name, done.plan.name));
                let mut line = object(&done);
                compare::object(&done, &self.done).into_iter().for_each(|(name, value)| line[name] = value);
                let line = line.to_string();
                self.write_files(&done, &line)?;
                if self.json {
                    self.print(&line)?;
                }
                let mut done = *done;
                if self.done.last().is_some_and(|last| last.plan.is_of_the_same_as(&done.plan)) {
                    // Those of the first seed are drawn.
                    done.forget_samples();
                }
                self.done.push(done);
                Ok(())
            }
        }
    }

    fn write_files(&mut self, done: &Done, line: &str) -> Result<(), Failure> {
        let Some((dir, runs)) = &mut self.out else { return Ok(()) };
        let name = done.plan.name.replace('/', "-").replace('%', "pct");
        let seed = if done.plan.asked.seeds > 1 { format!("-seed{}", done.plan.seed) } else { String::new() };
        let before = if done.plan.role == Role::AsItIs { "-as-it-is" } else { "" };
        let name = format!("{}-{name}{before}{seed}", done.plan.experiment.name);
        writeln!(runs, "{line}")
            .and_then(|()| std::fs::write(dir.join(format!("{name}.csv")), series(done)))
            .and_then(|()| match packets(done) {
                Some(csv) => std::fs::write(dir.join(format!("{name}-packets.csv")), csv),
                None => Ok(()),
            })
            .map_err(|e| writing(dir, &e))
    }

    /// A line on stdout. A reader that has gone ends the program quietly where nothing else comes of it.
    fn print(&mut self, line: &str) -> Result<(), Failure> {
        if self.unread {
            return Ok(());
        }
        self.unread = !out::tell(line)?;
        if self.unread && self.out.is_none() && self.report.is_none() {
            std::process::exit(0)
        }
        Ok(())
    }

    /// After the last run: the page, the table, and all runs that ended.
    pub(crate) fn finish(mut self, stopped: bool, planned: usize) -> Result<Vec<Done>, Failure> {
        self.bar.finish_and_clear();
        let shown = together(&self.done);
        let written = self.report.take().map(|report| {
            let text = page::page(&shown, stopped.then_some((self.done.len(), planned)));
            report.finish((!self.done.is_empty()).then_some(text.as_str()))
        });
        if !self.json {
            out::tell(&table::all(&shown, table::width()))?;
        }
        if let Some(told) = written.transpose()? {
            eprintln!("lowwater: {told}");
        }
        if stopped {
            eprintln!("lowwater: stopped: this is partial, {} of {planned} runs", self.done.len());
        }
        Ok(self.done)
    }
}

fn writing(path: &Path, e: &io::Error) -> Failure {
    Failure::io(format!("writing to {}", path.display()), e)
}

/// A line on stdout. A reader that has gone ends the program quietly.
fn print(line: &str) -> Result<(), Failure> {
    if out::tell(line)? { Ok(()) } else { std::process::exit(0) }
}

/// A run as JSON has it.
pub(super) fn object(done: &Done) -> Value {
    let named = |figures: &[(&str, f64)]| -> Map<String, Value> {
        figures.iter().map(|(name, value)| ((*name).to_owned(), number(*value))).collect()
    };
    let figures = done.figures.as_ref();
    let mut object = json!({
        "experiment": done.plan.experiment.name,
        "variant": done.plan.variant.name,
        "run": done.plan.name,
        "about": done.plan.about(),
        "seed": done.plan.seed,
        "params": report(&*done.plan.scenario),
        "complete": figures.is_some_and(|f| f.complete),
        "virtual_s": figures.map(|f| f.virtual_s),
        "events": figures.map(|f| f.events),
        "wall_s": done.wall_s,
        "figures": named(figures.map_or(&[], |f| f.named())),
    });
    if let Some(rounds) = figures.map(|f| &f.rounds).filter(|r| !r.is_empty()) {
        object["packets_and_segments_by_round_trip"] = json!(rounds);
    }
    let shorter = &done.plan.asked.shorter;
    if !shorter.is_empty() && !done.plan.variant.full {
        object["shortened"] = shorter.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    }
    for (whose, figures) in done.plan.then().into_iter().filter(|(_, figures)| !figures.is_empty()) {
        // As the tables name it.
        object[whose.to_lowercase().replace(' ', "_")] = Value::Object(named(figures));
    }
    if !done.plan.linux_now.is_empty() {
        let now = done.plan.linux_now.iter().map(|(name, value)| (name.clone(), number(*value)));
        object["linux_now"] = Value::Object(now.collect());
    }
    if let Some(why) = &done.plan.linux_failed {
        object["linux_failed"] = json!(why);
    }
    if let Some(out) = out_of_bounds(done) {
        object["out_of_bounds"] = json!(out.iter().map(OutOfBounds::json).collect::<Vec<_>>());
    }
    if let Some(why) = NotCompared::of(done) {
        object["not_compared"] = json!(why.to_string());
    }
    if let Some(broken) = &done.broken {
        object["broken"] = json!(broken.to_string());
    }
    object
}

/// Packets over time, where they were noted: for the picture of their size.
fn packets(done: &Done) -> Option<String> {
    let departures = done.figures.as_ref().map(|f| &f.departures).filter(|d| !d.is_empty())?;
    let mut csv = String::from("at_s,host,bytes,segs\n");
    for d in departures {
        let at_s = d.at.as_nanos() as f64 / 1e9;
        let _ = writeln!(csv, "{at_s},{},{},{}", d.host, d.bytes, d.segs);
    }
    Some(csv)
}

fn series(done: &Done) -> String {
    let mut csv = String::from(
        "at_s,flow,cwnd,ssthresh,in_flight_bytes,unsent_bytes,srtt_ms,backlog_bytes,acked_bytes,retrans\n",
    );
    for p in done.figures.iter().flat_map(|f| &f.series) {
        let _ = writeln!(
            csv,
            "{},{},{},{},{},{},{},{},{},{}",
            p.at_s,
            p.flow,
            p.cwnd,
            p.ssthresh,
            p.in_flight_bytes,
            p.unsent_bytes,
            p.srtt_ms.map(|ms| ms.to_string()).unwrap_or_default(),
            p.backlog_bytes,
            p.acked_bytes,
            p.retrans
        );
    }
    csv
}

/// The values in each of which a variant runs, by parameter.
fn grids<'a>(grids: impl Iterator<Item = &'a Grid>) -> Value {
    Value::Object(grids.map(|grid| (grid.key.to_owned(), json!(grid.values))).collect())
}

/// Prints what there is to run.
pub(crate) fn list(experiments: &[&Experiment], json: bool) -> Result<(), Failure> {
    for e in experiments {
        let settings = (e.make)().settings();
        let (about, abouts) = e.abouts();
        if json {
            let variant = |(v, about): (&Variant, &String)| {
                let (in_run, in_lab) = (!v.asked, !v.asked && v.quick);
                let grids = grids(e.grid.iter().chain(v.grid));
                json!({"name": v.name, "about": about, "in_run": in_run, "in_lab": in_lab, "each_with": grids})
            };
            let variants: Vec<_> = e.variants.iter().zip(&abouts).map(variant).collect();
            let params: Vec<_> = settings
                .iter()
                .map(
                    |s| json!({"name": s.name, "takes": s.takes, "about": s.about, "value": setting_value(&s.value)}),
                )
                .collect();
            print(
                &json!({"experiment": e.name, "about": about, "variants": variants, "params": params})
                    .to_string(),
            )?;
            continue;
        }
        let mut text = format!("{}: {about}\n  variants (--variant V)", e.name);
        if let Some(grid) = &e.grid {
            let _ = write!(text, ", each with {} {}", grid.key, grid.values.join(", "));
        }
        for (v, about) in e.variants.iter().zip(&abouts) {
            let long = match (v.asked, v.quick) {
                (true, _) => "; only by --variant",
                (_, true) => "",
                _ => "; not in `lowwater lab`",
            };
            let _ = write!(text, "\n    {:<22} {about}{long}", v.name);
        }
        text.push_str("\n  parameters (--set KEY=VALUE), beside the sysctls of Linux");
        for s in settings {
            let _ = write!(text, "\n    {:<22} {}: {} ({})", s.name, s.about, s.value, s.takes);
        }
        print(&text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_at_its_name_whoever_else_had_a_page_there() {
        let dir = std::env::temp_dir().join(format!("lowwater-pages-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a name of its own");
        let path = dir.join("report.html");
        let read = || std::fs::read_to_string(&path).ok();
        can_write(&path).expect("a directory of its own");
        assert_eq!(read(), None);
        // Of two labs one has no run.
        let (a, b) = (Page::open(&path).expect("nothing there"), Page::open(&path).expect("nothing there"));
        a.finish(None).expect("no page");
        assert_eq!(read(), None);
        b.finish(Some("the page of b")).expect("a page");
        assert_eq!(read().as_deref(), Some("the page of b"));
        // What was there is taken away meanwhile.
        let c = Page::open(&path).expect("a file there");
        std::fs::remove_file(&path).expect("it was there");
        c.finish(Some("of c")).expect("a page");
        assert_eq!(read().as_deref(), Some("of c"));
        Page::open(&path).expect("a file there").finish(Some("d")).expect("a page");
        assert_eq!(read().as_deref(), Some("d"));
        for wrong in [dir.join("none/report.html"), dir.clone(), dir.join("x/")] {
            assert!(Page::open(&wrong).is_err(), "{}", wrong.display());
        }
        std::fs::remove_dir_all(&dir).expect("it is ours");
    }
}
