//! What the lab prints: a bar on a terminal, a table or JSON on stdout, files in a directory.
use super::catalog::EXPERIMENTS;
use super::runs::{Done, Event};
use super::{LabOptions, params};
use crate::failure::Failure;
use comfy_table::{Cell, CellAlignment, Table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

/// Steps of the bar per run.
const STEPS: f64 = 1_000.0;

/// Prints runs as they end.
pub(crate) struct Render {
    json: bool,
    bar: ProgressBar,
    fractions: Vec<f64>,
    out: Option<(PathBuf, File)>,
    done: Vec<Done>,
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
            Some(dir) => {
                let file = std::fs::create_dir_all(dir).and_then(|()| File::create(dir.join("runs.jsonl")));
                Some((
                    dir.clone(),
                    file.map_err(|e| Failure::io(format!("writing to {}", dir.display()), &e))?,
                ))
            }
        };
        Ok(Self { json: options.json, bar, fractions: vec![0.0; runs], out, done: Vec::new() })
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
                self.bar.set_message(format!("{} {}", done.plan.experiment, done.plan.name));
                let line = object(&done).to_string();
                if self.json {
                    print(&line)?;
                }
                self.write_files(&done, &line)?;
                self.done.push(*done);
                Ok(())
            }
        }
    }

    fn write_files(&mut self, done: &Done, line: &str) -> Result<(), Failure> {
        let Some((dir, runs)) = &mut self.out else { return Ok(()) };
        let name =
            format!("{}-{}.csv", done.plan.experiment, done.plan.name.replace('/', "-").replace('%', "pct"));
        writeln!(runs, "{line}")
            .and_then(|()| std::fs::write(dir.join(name), series(done)))
            .map_err(|e| Failure::io(format!("writing to {}", dir.display()), &e))
    }

    /// After the last run: the table, and all runs that ended.
    pub(crate) fn finish(self, stopped: bool, planned: usize) -> Result<Vec<Done>, Failure> {
        self.bar.finish_and_clear();
        if !self.json {
            print(&table(&self.done).to_string())?;
        }
        if stopped {
            eprintln!("lowwater: stopped: this is partial, {} of {planned} runs", self.done.len());
        }
        Ok(self.done)
    }
}

/// A line on stdout. A reader that has gone ends the program quietly.
fn print(line: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|e| Failure::io("writing to stdout", &e)),
    }
}

/// A run as JSON has it.
fn object(done: &Done) -> Value {
    let mut figures = Map::new();
    for (name, value) in done.figures.iter().flat_map(|f| f.named()) {
        // Counts are whole numbers, and are to look like it.
        let whole = value.fract() == 0.0 && value.abs() < 9e15;
        figures.insert(name.into(), if whole { json!(value as i64) } else { json!(value) });
    }
    let mut object = json!({
        "experiment": done.plan.experiment,
        "variant": done.plan.variant,
        "seed": done.plan.params.bulk.seed,
        "params": done.plan.params.report(),
        "complete": done.figures.as_ref().is_some_and(|f| f.complete),
        "virtual_s": done.figures.as_ref().map(|f| f.virtual_s),
        "wall_s": done.wall_s,
        "figures": figures,
    });
    if let Some(broken) = &done.broken {
        object["broken"] = json!(broken.to_string());
    }
    object
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
            p.srtt_ms,
            p.backlog_bytes,
            p.acked_bytes,
            p.retrans
        );
    }
    csv
}

fn table(done: &[Done]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "experiment",
        "variant",
        "loss %",
        "Mbit/s",
        "seconds",
        "retrans",
        "srtt ms",
        "queue\nkB mean",
        "kB max",
        "segs/\npacket",
        "wall s",
    ]);
    for d in done {
        let mut row = vec![
            d.plan.experiment.to_owned(),
            d.plan.variant.to_owned(),
            d.plan.params.loss_percent().to_string(),
        ];
        match &d.figures {
            Some(f) => {
                let late = if f.complete { "" } else { " (cut)" };
                row.extend([
                    format!("{:.1}", f.goodput_mbps),
                    format!("{:.2}{late}", f.elapsed_s),
                    f.retrans_segs.to_string(),
                    format!("{:.1}", f.srtt_ms),
                    format!("{:.0}", f.backlog_bytes_mean / 1e3),
                    format!("{:.0}", f.backlog_bytes_max / 1e3),
                    format!("{:.1}", f.segs_per_packet),
                ]);
            }
            None => row.extend(["broke a promise", "", "", "", "", "", ""].map(str::to_owned)),
        }
        row.push(format!("{:.2}", d.wall_s));
        let cells = row.into_iter().enumerate();
        table.add_row(cells.map(|(i, text)| {
            Cell::new(text).set_alignment(if i < 2 { CellAlignment::Left } else { CellAlignment::Right })
        }));
    }
    table
}

/// Prints what there is to run.
pub(crate) fn list(json: bool) -> Result<(), Failure> {
    for e in EXPERIMENTS {
        if json {
            let variants: Vec<_> =
                e.variants.iter().map(|v| json!({"name": v.name, "about": v.about})).collect();
            let params: Vec<_> = params::NAMES
                .iter()
                .map(|(n, takes, about)| json!({"name": n, "takes": takes, "about": about}))
                .collect();
            print(
                &json!({"experiment": e.name, "about": e.about, "variants": variants, "params": params})
                    .to_string(),
            )?;
            continue;
        }
        let mut text = format!("{}: {}\n  variants (--variant V), each with loss of", e.name, e.about);
        for ppm in e.losses_ppm {
            let _ = write!(text, " {} %", f64::from(*ppm) / 1e4);
        }
        for v in e.variants {
            let _ = write!(text, "\n    {:<18} {}", v.name, v.about);
        }
        text.push_str("\n  parameters (--set KEY=VALUE), beside the sysctls of Linux");
        for (name, takes, about) in params::NAMES {
            let _ = write!(text, "\n    {name:<18} {about} ({takes})");
        }
        print(&text)?;
    }
    Ok(())
}
