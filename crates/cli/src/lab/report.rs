//! The report: one page that needs nothing beside it, with the tables and pictures of all runs that ended.
use super::catalog::{Column, EXPERIMENTS, Experiment, report as parameters};
use super::runs::Done;
use super::{bounds, compare, notes, picture, table, words};
use serde_json::{Value, json};

const PAGE: &str = include_str!("report/page.html");
const PARTS: [(&str, &str); 5] = [
    ("/* uplot.css */", include_str!("../../vendor/uplot/uPlot.min.css")),
    ("/* page.css */", include_str!("report/page.css")),
    ("/* uplot.licence */", include_str!("../../vendor/uplot/LICENSE")),
    ("/* uplot.js */", include_str!("../../vendor/uplot/uPlot.iife.min.js")),
    ("/* page.js */", include_str!("report/page.js")),
];

/// The page; `partial` says how many of how many runs there are, where somebody stopped them. The same runs make the same bytes.
pub(super) fn page(done: &[Done], partial: Option<(usize, usize)>) -> String {
    let page = PARTS.iter().fold(PAGE.to_owned(), |page, (place, part)| page.replacen(place, part, 1));
    // Nothing in it may end the element that it stands in.
    let data = data(done, partial).to_string().replace("</", "<\\/");
    page.replacen("/* data */", &data, 1)
}

fn data(done: &[Done], partial: Option<(usize, usize)>) -> Value {
    let experiments = EXPERIMENTS.iter().filter_map(|experiment| {
        let own: Vec<_> = done.iter().filter(|d| d.plan.experiment.name == experiment.name).collect();
        (!own.is_empty()).then(|| section(experiment, &own))
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "seed": done.first().map(|d| d.plan.seed),
        "seeds": done.first().map(|d| d.plan.asked.seeds_text()),
        "partial": partial.map(|(ended, planned)| format!("Stopped: this is partial, {ended} of {planned} runs.")),
        "experiments": experiments.collect::<Vec<_>>(),
    })
}

fn section(experiment: &Experiment, done: &[&Done]) -> Value {
    let heads: Vec<_> = experiment.columns.iter().map(Column::title).collect();
    let groups = table::by_conditions(experiment, done);
    let several = groups.len() > 1;
    let of_group = |(about, done): &(String, Vec<&Done>)| {
        let rows = done.iter().map(|d| row(experiment, d, compare::before(done, d)));
        // The heading of a table says it where all rows are of one kind.
        rows.map(|row| (several.then(|| about.clone()), row)).collect::<Vec<_>>()
    };
    let rows = groups.iter().flat_map(of_group).map(|(under, mut row)| {
        row["under"] = json!(under);
        row
    });
    let rows: Vec<_> = rows.collect();
    let abouts: Vec<_> = groups.into_iter().map(|(about, _)| about).collect();
    let verdicts = bounds::lines(done).map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let verdicts: Vec<_> = verdicts.into_iter().flatten().chain(notes::lines(done)).collect();
    let pictures = picture::all(experiment, done);
    let plan = &done[0].plan;
    let mut section = json!({
        "name": experiment.name,
        "about": table::in_one(&abouts),
        "changed": plan.asked.changed(),
        "command": plan.asked.command(experiment.name),
        "heads": heads,
        "rows": rows,
        "compared": compare::tables(experiment, done),
        "pairs": table::pairs(experiment, done).map(|pairs| {
            let heads: Vec<_> = pairs.heads.iter().map(|head| head.replace('\n', " ")).collect();
            json!({"heads": heads, "rows": pairs.rows})
        }),
        "verdicts": verdicts,
        "pictures": pictures,
    });
    section["words"] = json!(words::below(experiment, &section.to_string()));
    section
}

fn row(experiment: &Experiment, d: &Done, before: Option<&Done>) -> Value {
    let cell = |column| {
        let told = table::told(d, before, column);
        json!({"value": told.ours, "others": told.below()})
    };
    json!({
        "name": d.label(),
        "about": d.plan.about(),
        "parameters": parameters(&*d.plan.scenario),
        "complete": d.figures.as_ref().is_some_and(|f| f.complete),
        "broken": d.broken.as_ref().map(ToString::to_string),
        "cells": experiment.columns.iter().map(cell).collect::<Vec<_>>(),
    })
}
