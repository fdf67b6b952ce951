"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

/** An element with attributes and children; strings become text, never markup. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (index) => css(`--c${index % 8}`);

/** 12,345,678 as 12.3M. */
function brief(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return `${Number((value / unit).toPrecision(3))}${letter}`;
  }
  return `${Number(value.toPrecision(3))}`;
}

function axes(picture) {
  const look = { stroke: css("--quiet"), grid: { stroke: css("--rule"), width: 1 }, ticks: { stroke: css("--rule"), width: 1 } };
  const words = (u, values) => values.map(brief);
  return [
    { ...look, label: picture.x, labelSize: 20, values: words },
    { ...look, label: picture.unit, labelSize: 20, size: 56, values: words },
  ];
}

function look(picture, line, index) {
  const stroke = colour(index);
  const value = (u, v) => brief(v);
  if (picture.kind === "points") {
    return { label: line.name, stroke, value, paths: () => null, points: { show: true, size: 4, fill: stroke } };
  }
  return { label: line.name, stroke, value, width: 1.5, spanGaps: true, points: { show: picture.kind === "curve" && line.x.length < 40 } };
}

/** Lines, points or a curve into a figure that is in the page already. */
function plot(figure, picture) {
  const curve = picture.kind === "curve";
  const y = (values) => (picture.log ? values.map((v) => (v > 0 ? v : null)) : values);
  const tables = picture.lines.map((line) => [line.x, y(line.y)]);
  const lines = tables.length === 1 ? tables[0] : uPlot.join(tables);
  const width = () => Math.max(280, figure.clientWidth - 34);
  const chart = new uPlot({
    width: width(),
    height: 280,
    scales: { x: { time: false, distr: curve ? 3 : 1, log: 2 }, y: picture.log ? { distr: 3 } : { range: (u, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
    axes: axes(picture),
    series: [{ label: picture.x, value: (u, v) => brief(v) }, ...picture.lines.map((line, i) => look(picture, line, i))],
    legend: { live: true },
    cursor: { drag: { x: true, y: false } },
  }, lines, figure);
  new ResizeObserver(() => {
    if (chart.width !== width()) chart.setSize({ width: width(), height: 280 });
  }).observe(figure);
}

function bars(picture) {
  const all = picture.rows.flatMap((row) => row.values.map((v) => v.value));
  const most = Math.max(...all);
  const least = Math.min(...all.filter((v) => v > 0));
  // A logarithmic bar begins a little below the least value.
  const share = (value) => {
    if (!(value > 0) || !(most > 0)) return 0;
    if (!picture.log) return value / most;
    return Math.log(value / (least / 2)) / Math.log(most / (least / 2));
  };
  const bar = (v) => [
    make("span", { class: "who" }, v.who),
    make("span", { class: "bar" }, make("i", { class: v.who.split(" ")[0].split("'")[0].toLowerCase(), style: `width:${(share(v.value) * 75).toFixed(2)}%` }), brief(v.value)),
  ];
  const rows = picture.rows.flatMap((row) => [make("span", { class: "run" }, row.name), ...row.values.flatMap(bar)]);
  return make("div", { class: "bars" }, ...rows);
}

function pictureOf(picture) {
  const scale = picture.log ? ", logarithmic" : "";
  const unit = picture.unit ? ` (${picture.unit}${scale})` : "";
  const figure = make("figure", {}, make("figcaption", {}, picture.title, make("span", {}, unit)));
  if (picture.kind === "bars") figure.append(bars(picture));
  return figure;
}

function tableOf(experiment) {
  const head = make("tr", {}, ...["", ...experiment.heads].map((text) => make("th", { scope: "col" }, text)));
  const cell = (c) => make("td", {}, c.value, ...c.others.map((other) => make("small", {}, other)));
  const rows = experiment.rows.map((row) => {
    const state = row.broken ? `broke a promise: ${row.broken}` : row.complete ? row.about : `${row.about} (cut short)`;
    const name = make("td", { title: JSON.stringify(row.parameters) }, row.name, make("small", {}, state));
    return make("tr", {}, name, ...row.cells.map(cell));
  });
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function pairsOf(experiment) {
  if (experiment.pairs.length === 0) return null;
  const heads = ["before and after", "before", "after", "commit before", "commit after", "Linux before", "Linux after"];
  const rows = experiment.pairs.map((row) => {
    const [what, variants] = row[0].split("\n");
    return make("tr", {}, make("td", {}, what, make("small", {}, variants)), ...row.slice(1).map((text) => make("td", {}, text)));
  });
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function sectionOf(experiment) {
  const verdict = (text) => make("li", text.startsWith("missed:") ? { class: "missed" } : {}, text);
  const figures = experiment.pictures.map(pictureOf);
  const section = make("section", { id: experiment.name },
    make("h2", {}, experiment.name),
    make("p", { class: "about" }, experiment.about, ". ", make("code", {}, `lowwater lab run ${experiment.name}`)),
    make("div", { class: "pictures" }, ...figures),
    pairsOf(experiment),
    tableOf(experiment),
    experiment.verdicts.length ? make("ul", { class: "verdicts" }, ...experiment.verdicts.map(verdict)) : null);
  return { section, draw: () => experiment.pictures.forEach((p, i) => p.kind !== "bars" && plot(figures[i], p)) };
}

document.getElementById("made").append(
  `Made by lowwater ${data.version}, in virtual time from seed ${data.seed}. "Linux" was measured on Linux 6.1, "Linux now" beside this run, `
  + `"commit" is what the Linux commit reports that an experiment comes from. Click a name below a picture to hide its line, drag to enlarge, double-click to go back.`);
const sections = data.experiments.map(sectionOf);
document.getElementById("contents").append(...data.experiments.map((e) => make("a", { href: `#${e.name}` }, e.name)));
document.getElementById("experiments").append(...sections.map((s) => s.section));
sections.forEach((s) => s.draw());
