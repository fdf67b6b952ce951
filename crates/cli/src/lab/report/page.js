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

/** As many digits as the tables have: 6,636, 83.5, 5.16. */
function plain(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Digits of the tables as plain() has them: 54922 as 54,922. */
const grouped = (text) => text.replace(/\d{4,}/g, (digits) => Number(digits).toLocaleString("en"));

/** For axes: 12,345,678 as 12.3M, 6,000 as it is. */
function brief(value) {
  if (value === null || value === undefined) return "";
  if (Math.abs(value) >= 100 && Math.abs(value) < 1e5) return plain(value);
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
    { ...look, label: picture.unit, labelSize: 20, size: 64, values: words },
  ];
}

/**
 * How the lines of a picture are told apart. Lines of the same values lie on each other: the ones above are thinner and broken.
 * Where variants stand beside themselves as they are, both have the colour of the variant, and the one as it is is broken;
 * a single pair has two colours.
 */
function looks(picture) {
  const dashes = [[], [8, 5], [2, 4], [12, 4, 2, 4], [5, 5], [2, 2]];
  const usual = (line, i) => ({ colour: colour(i), dash: dashes[i % 6], width: i % 6 === 0 ? 2.5 : 1.75 });
  if (!picture.lines.some((line) => line.before)) return picture.lines.map(usual);
  if (picture.lines.length <= 2 || picture.kind === "points") return picture.lines.map((line, i) => ({ ...usual(line, i), dash: [], width: i === 0 ? 2.5 : 1.75 }));
  let hue = -1;
  return picture.lines.map((line, i) => {
    if (line.before || !picture.lines[i - 1]?.before) hue += 1;
    return { colour: colour(hue), dash: line.before ? [3, 4] : [], width: line.before ? 1.25 : 2 };
  });
}

/** A piece of a line as it is drawn, or a point, for the legend. */
function sample(picture, look) {
  const shape = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const svg = shape("svg", { class: "sample", width: 34, height: 10, "aria-hidden": "true" });
  const points = picture.kind === "points";
  svg.append(points
    ? shape("circle", { cx: 17, cy: 5, r: 3, fill: look.colour })
    : shape("line", { x1: 0, x2: 34, y1: 5, y2: 5, stroke: look.colour, "stroke-width": look.width, "stroke-dasharray": look.dash.join(" ") }));
  return svg;
}

function seriesOf(picture, line, look) {
  const stroke = look.colour;
  const value = (u, v) => plain(v);
  if (picture.kind === "points") {
    return { label: line.name, stroke, value, paths: () => null, points: { show: true, size: 4, fill: stroke } };
  }
  return { label: line.name, stroke, value, dash: look.dash, width: look.width, spanGaps: true, points: { show: picture.kind === "curve" && line.x.length < 40 } };
}

/** Lines, points or a curve into a figure that is in the page already. */
function plot(figure, picture) {
  const curve = picture.kind === "curve";
  const y = (values) => (picture.log ? values.map((v) => (v > 0 ? v : null)) : values);
  const tables = picture.lines.map((line) => [line.x, y(line.y)]);
  const lines = tables.length === 1 ? tables[0] : uPlot.join(tables);
  const width = () => Math.max(280, figure.clientWidth - 34);
  const told = looks(picture);
  const chart = new uPlot({
    width: width(),
    height: 280,
    scales: { x: { time: false, distr: curve ? 3 : 1, log: 10 }, y: picture.log ? { distr: 3 } : { range: (u, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
    axes: axes(picture),
    series: [{ label: picture.x, value: (u, v) => plain(v) }, ...picture.lines.map((line, i) => seriesOf(picture, line, told[i]))],
    legend: { live: true },
    cursor: { drag: { x: true, y: false } },
  }, lines, figure);
  // The first one is that of the axis.
  [...figure.querySelectorAll(".u-legend .u-series")].slice(1).forEach((row, i) => {
    const marker = row.querySelector(".u-marker");
    if (marker) marker.replaceWith(sample(picture, told[i]));
  });
  new ResizeObserver(() => {
    if (chart.width !== width()) chart.setSize({ width: width(), height: 280 });
  }).observe(figure);
}

function bars(picture) {
  const all = picture.rows.flatMap((row) => row.values.map((v) => v.value));
  const most = Math.max(...all);
  const least = Math.min(...all.filter((v) => v > 0));
  // A logarithmic axis has whole decades; every bar is on it.
  const log = picture.log && most > 0 && most / least >= 10;
  const low = log ? Math.floor(Math.log10(least / 1.001)) : 0;
  const high = log ? Math.max(low + 1, Math.ceil(Math.log10(most))) : 0;
  const share = (value) => {
    if (!(value > 0) || !(most > 0)) return 0;
    return log ? (Math.log10(value) - low) / (high - low) : value / most;
  };
  const bar = (v) => [
    make("span", { class: "who" }, v.who),
    make("span", { class: "bar" }, make("i", { class: v.who.replace(" full", "").replace("'s", "").replace(/ /g, "-").toLowerCase(), style: `width:${(share(v.value) * 75).toFixed(2)}%` }), grouped(v.text), v.change ? make("b", { class: "change" }, v.change) : null),
  ];
  const rows = picture.rows.flatMap((row) => [make("span", { class: "run" }, row.name), ...row.values.flatMap(bar)]);
  if (!log) return make("div", { class: "bars" }, ...rows);
  const decades = Array.from({ length: high - low + 1 }, (_, i) => i);
  const tick = (i) => make("span", { style: `left:${((i / (high - low)) * 75).toFixed(2)}%` }, brief(10 ** (low + i)));
  const axis = make("span", { class: "axis" }, ...decades.map(tick));
  const grid = `--decade:${(100 / (high - low)).toFixed(3)}%`;
  return make("div", { class: "bars log", style: grid }, ...rows, make("span", { class: "who" }, "logarithmic"), axis);
}

function pictureOf(picture) {
  const scale = picture.log && picture.kind !== "bars" ? ", logarithmic" : "";
  const unit = picture.unit ? ` (${picture.unit}${scale})` : "";
  const figure = make("figure", {}, make("figcaption", {}, picture.title, make("span", {}, unit)));
  if (picture.kind === "bars") figure.append(bars(picture));
  if (picture.note) figure.append(make("p", { class: "note" }, picture.note));
  return figure;
}

/** A box that a wide table moves in, by keys too; what it hides at a side casts a shadow there. */
function boxed(label, table) {
  return make("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
}

function tableOf(experiment) {
  const head = make("tr", {}, ...["", ...experiment.heads].map((text) => make("th", { scope: "col" }, text)));
  const cell = (c) => make("td", {}, grouped(c.value), ...c.others.map((other) => make("small", {}, grouped(other))));
  let said = null;
  const rows = experiment.rows.flatMap((row) => {
    const state = row.broken ? `broke a promise: ${row.broken}` : row.complete ? row.about : `${row.about} (cut short)`;
    const name = make("td", { title: JSON.stringify(row.parameters) }, row.name, make("small", {}, state));
    const under = row.under !== said && row.under ? [make("tr", { class: "under" }, make("th", { colspan: row.cells.length + 1, scope: "rowgroup" }, row.under))] : [];
    said = row.under;
    return [...under, make("tr", {}, name, ...row.cells.map(cell))];
  });
  return boxed("Runs", make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function pairsOf(experiment) {
  if (!experiment.pairs) return null;
  const rows = experiment.pairs.rows.map((row) => {
    const [what, variants] = row[0].split("\n");
    return make("tr", {}, make("td", {}, what, make("small", {}, variants)), ...row.slice(1).map((text) => make("td", {}, grouped(text))));
  });
  const head = make("tr", {}, ...experiment.pairs.heads.map((text) => make("th", { scope: "col" }, text)));
  return boxed("Before and after", make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

/** What --set changes, one table for each variant; of many they are shown when they are asked for. */
function comparedOf(experiment) {
  if (!experiment.compared.length) return null;
  const table = (c) => make("table", {},
    make("thead", {}, make("tr", {}, ...[c.name, "as it is", c.by, "change"].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...c.rows.map((row) => make("tr", row.much ? { class: "much" } : {}, ...row.cells.map((text) => make("td", {}, grouped(text)))))));
  const all = make("div", { class: "compared" }, ...experiment.compared.map((c) => boxed(`What changes: ${c.name}`, table(c))));
  if (experiment.compared.length <= 4) return all;
  return make("details", {}, make("summary", {}, `What changes in each of ${experiment.compared.length} variants`), all);
}

function sectionOf(experiment) {
  const verdict = (text) => make("li", text.startsWith("out of bounds:") ? { class: "out" } : {}, text);
  const figures = experiment.pictures.map(pictureOf);
  const section = make("section", { id: experiment.name },
    make("h2", {}, experiment.name),
    make("p", { class: "about" }, experiment.about, experiment.changed ? "; " : "", make("b", {}, experiment.changed || ""), ". ", /shortened: /.test(experiment.changed) ? "In full: " : "", make("code", {}, experiment.command)),
    comparedOf(experiment),
    make("div", { class: experiment.pictures.some((p) => p.small) ? "pictures many" : "pictures" }, ...figures),
    pairsOf(experiment),
    tableOf(experiment),
    experiment.verdicts.length ? make("ul", { class: "verdicts" }, ...experiment.verdicts.map(verdict)) : null,
    experiment.words.length ? make("p", { class: "note words" }, experiment.words.map((text) => `${text}.`).join(" ")) : null);
  return { section, draw: () => experiment.pictures.forEach((p, i) => p.kind !== "bars" && plot(figures[i], p)) };
}

document.getElementById("made").append(
  `${data.partial ? `${data.partial} ` : ""}Made by lowwater ${data.version}, in virtual time from ${data.seeds}. What words mean stands below each table. `
  + `Bars: ours, Linux's, and what the commit reports that an experiment comes from. Click a name below a picture to hide its line, drag to enlarge, double-click to go back.`);
const sections = data.experiments.map(sectionOf);
document.getElementById("contents").append(...data.experiments.map((e) => make("a", { href: `#${e.name}` }, e.name)));
document.getElementById("experiments").append(...sections.map((s) => s.section));
sections.forEach((s) => s.draw());
