// SPDX-License-Identifier: BSD-3-Clause
// Asks the server for its status once a second, and shows it.  Names come from clients and
// administrators of images: they are only ever set as text.
"use strict";

const INTERVAL = 1000; // ms
const PATIENCE = 8000; // ms, for one answer
const SAMPLES = 120; // in a plot
const OPEN_MOST = 6; // with more exports, they begin folded

// ---- elements

const SVG = "http://www.w3.org/2000/svg";
const at = (id) => document.getElementById(id);

function make(tag, kind, ...inside) {
	const element = document.createElement(tag);
	if (kind)
		element.className = kind;
	element.append(...inside);
	return element;
}

function draw(tag, attributes) {
	const element = document.createElementNS(SVG, tag);
	for (const [name, value] of Object.entries(attributes))
		element.setAttribute(name, value);
	return element;
}

function say(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

// A text from elsewhere, whose direction of writing does not reach beyond it.
function foreign(text) {
	return make("bdi", "", text);
}

// ---- figures as text

function scaled(value, base, units) {
	let unit = 0;
	while (value >= base && unit < units.length - 1) {
		value /= base;
		unit++;
	}
	const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
	return [value.toFixed(digits), units[unit]];
}

const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
const perSecond = (value) => {
	const [number, unit] = bytes(value);
	return [number, unit + "/s"];
};
const operations = (value) => scaled(value, 1000, ["/s", "k/s", "M/s"]);
const count = (value) => [String(value), ""];
const time = (us) => us === null ? ["–", ""] : scaled(us, 1000, ["µs", "ms", "s"]);
const whole = (value) => value.toLocaleString("en");
const together = ([number, unit]) => unit.startsWith("/") || !unit ? number + unit : number + " " + unit;

// ---- plots: one or two lines of the last samples

class Line {
	constructor(svg, name, color, area) {
		this.name = name;
		this.color = color;
		this.values = [];
		this.area = area && draw("path", {class: "fill " + color});
		this.path = draw("path", {class: color});
		if (area)
			svg.append(this.area);
		svg.append(this.path);
	}

	add(value) {
		this.values.push(value);
		if (this.values.length > SAMPLES)
			this.values.shift();
	}

	// `height` gives the place of a value, from 0 to 1; null leaves a gap.
	show(height) {
		const first = SAMPLES - this.values.length;
		let way = "", area = "", last = -1;
		this.values.forEach((value, i) => {
			if (value === null)
				return;
			const point = (first + i) + " " + (100 - 96 * height(value)).toFixed(1);
			const goesOn = last === i - 1 && last >= 0;
			way += (goesOn ? "L" : "M") + point;
			area += goesOn ? "L" + point : (area ? "L" + (first + last) + " 100Z" : "") +
				"M" + (first + i) + " 100L" + point;
			// A sample alone is a short line.
			way += goesOn ? "" : "h.6";
			last = i;
		});
		this.path.setAttribute("d", way);
		if (this.area)
			this.area.setAttribute("d", area && area + "L" + (first + last) + " 100Z");
	}
}

class Plot {
	// `lines`: of [name, color]; `text`: what makes [number, unit] of a value.
	constructor(title, lines, text, logarithmic) {
		this.text = text;
		this.logarithmic = logarithmic;
		this.svg = draw("svg", {viewBox: "0 0 " + (SAMPLES - 1) + " 100", preserveAspectRatio: "none",
			"aria-hidden": "true"});
		this.svg.append(draw("line", {x1: 0, x2: SAMPLES - 1, y1: 4, y2: 4}));
		this.lines = lines.map(([name, color]) => new Line(this.svg, name, color, !logarithmic));
		this.most = make("span", "most");
		this.values = this.lines.map(() => make("b"));
		this.element = make("div", "plot", make("h3", "", title, this.most), this.svg,
			make("div", "legend", ...this.lines.map((line, i) =>
				make("span", "", make("i", line.color), line.name + " ", this.values[i]))));
	}

	add(...values) {
		this.lines.forEach((line, i) => line.add(values[i]));
	}

	show() {
		const most = Math.max(1, ...this.lines.flatMap((line) => line.values));
		const height = this.logarithmic ?
			(value) => Math.log(Math.max(value, 1)) / Math.log(Math.max(most, 2)) :
			(value) => value / most;
		say(this.most, this.lines.some((line) => line.values.some(Boolean)) ? "most " + together(this.text(most)) : "");
		this.lines.forEach((line, i) => {
			line.show(height);
			say(this.values[i], together(this.text(line.values.at(-1))));
		});
	}
}

// A figure of the whole server, in large, with its past in small.
class Tile {
	constructor(title, color, text) {
		this.text = text;
		this.value = make("div", "value");
		this.svg = draw("svg", {viewBox: "0 0 " + (SAMPLES - 1) + " 100", preserveAspectRatio: "none",
			"aria-hidden": "true"});
		this.line = new Line(this.svg, title, color, true);
		at("totals").append(make("div", "card", make("h3", "facts", title), this.value, this.svg));
	}

	show(value) {
		const [number, unit] = this.text(value);
		this.line.add(value);
		const most = Math.max(1, ...this.line.values);
		this.line.show((one) => one / most);
		this.value.replaceChildren(number, make("small", "", " " + unit));
	}
}

// ---- rates

// What two states of counters differ by, in one second; a counter that began anew counts from 0.
function rate(now, before, seconds) {
	if (before === undefined || !seconds)
		return 0;
	return (now >= before ? now - before : now) / seconds;
}

// The time that a part of the requests since `before` took at most, in microseconds: in a bucket,
// the requests are taken as evenly spread.  null: there were none.
function quantile(now, before, part) {
	const grown = [];
	for (const op of Object.keys(now))
		now[op].forEach((n, i) => {
			const was = before && before[op] ? before[op][i] || 0 : 0;
			grown[i] = (grown[i] || 0) + Math.max(0, n - was);
		});
	let wanted = Array.from(grown, (n) => n || 0).reduce((sum, n) => sum + n, 0) * part;
	if (wanted === 0)
		return null;
	for (let i = 0; i < grown.length; i++) {
		const n = grown[i] || 0;
		if (n >= wanted && n > 0)
			return (i ? 2 ** (i - 1) : 0) + (i ? 2 ** (i - 1) : 1) * wanted / n;
		wanted -= n;
	}
	return 2 ** grown.length;
}

// ---- tables of clients

const COLUMNS = ["Client", "In flight", "Reads", "Writes", "Read", "Written"];

class Clients {
	constructor(named) {
		this.named = named; // whether the rows tell the export
		this.rows = new Map(); // by the connection's id
		this.body = make("tbody");
		this.element = make("table", "",
			make("caption", "", "Clients"),
			make("thead", "", make("tr", "", ...COLUMNS.map((name) => make("th", "", name)))),
			this.body);
	}

	add(connection) {
		const who = make("td", "", foreign(connection.client || "?"));
		const known = connection.identity.join(", ");
		if (known)
			who.append(make("small", "", foreign(known)));
		if (this.named && connection.export !== null)
			who.append(make("small", "", "export ", foreign(connection.export)));
		if (connection.read_only)
			who.append(make("small", "", "read-only"));
		const tls = make("small");
		who.append(tls);
		const cells = COLUMNS.slice(1).map((name) => {
			const cell = make("td");
			cell.dataset.label = name;
			return cell;
		});
		const row = {element: make("tr", "", who, ...cells), cells, tls};
		row.element.dataset.id = connection.id;
		this.rows.set(connection.id, row);
		this.body.append(row.element);
		return row;
	}

	show(connections, seconds) {
		const there = new Set();
		for (const one of connections) {
			const row = this.rows.get(one.id) || this.add(one);
			const before = row.before || {};
			there.add(one.id);
			[whole(one.requests),
				together(perSecond(rate(one.read_bytes, before.read_bytes, seconds))),
				together(perSecond(rate(one.write_bytes, before.write_bytes, seconds))),
				together(bytes(one.read_bytes)), together(bytes(one.write_bytes))]
				.forEach((text, i) => say(row.cells[i], text));
			say(row.tls, one.tls ? "TLS " + one.tls : "without TLS");
			row.before = {read_bytes: one.read_bytes, write_bytes: one.write_bytes};
		}
		for (const [id, row] of this.rows) {
			if (there.has(id))
				continue;
			row.element.remove();
			this.rows.delete(id);
		}
		this.element.hidden = there.size === 0;
	}
}

// ---- an export

class Export {
	constructor(one, open) {
		this.before = undefined;
		this.plots = {
			bytes: new Plot("Throughput", [["reads", "a"], ["writes", "b"]], perSecond),
			operations: new Plot("Requests", [["reads", "a"], ["all others", "b"]], operations),
			latency: new Plot("Latency", [["half below", "a"], ["99 % below", "b"]], time, true),
			queue: new Plot("Queue", [["in flight", "c"]], (value) => count(Math.round(value))),
		};
		this.summary = make("span", "facts");
		this.facts = make("p", "facts");
		this.chips = make("ul", "chips");
		this.clients = new Clients(false);
		this.counters = make("dl");
		this.counter = new Map();
		this.element = make("details", "card",
			make("summary", "", make("b", one.name ? "" : "nameless",
				foreign(one.name || "the export without a name")), this.summary),
			this.facts, this.chips,
			make("div", "plots", ...Object.values(this.plots).map((plot) => plot.element)),
			this.clients.element,
			make("details", "more", make("summary", "", "Operations on the image since the start"), this.counters));
		this.element.open = open;
		this.element.dataset.export = one.name;
	}

	showFacts(one) {
		const facts = [one.description, one.file, together(bytes(one.size))].filter(Boolean).join(" · ");
		if (facts !== this.facts.textContent)
			this.facts.replaceChildren(foreign(facts));
		const errors = Object.values(one.answered).reduce((sum, op) => sum + op.errors, 0);
		const chips = [
			[one.engine, one.engine_reason],
			["direct I/O " + (one.direct_io ? "on" : "off"), one.direct_io_reason],
			[one.read_only ? "read-only" : "writable", one.read_only_reason],
			one.snapshot ? ["snapshot of " + (one.snapshot.of || "the export without a name")] : [],
			one.snapshot && one.snapshot.broken ? ["broken", one.snapshot.broken] : [],
			one.checkpoints.length ? [one.checkpoints.length + " checkpoints"] : [],
			errors ? ["errors", whole(errors)] : [],
		].filter((chip) => chip.length);
		const key = JSON.stringify(chips);
		if (key === this.key)
			return;
		this.key = key;
		this.chips.replaceChildren(...chips.map(([text, reason]) =>
			make("li", reason ? "warn" : "", foreign(reason ? text + ": " + reason : text))));
	}

	showCounters(counters) {
		for (const [name, value] of Object.entries(counters)) {
			if (!this.counter.has(name)) {
				const dd = make("dd");
				dd.dataset.counter = name;
				this.counter.set(name, dd);
				this.counters.append(make("div", "", make("dt", "", name.replaceAll("_", " ")), dd));
			}
			say(this.counter.get(name), whole(value));
		}
	}

	// Returns the rates of this second.
	add(one, seconds) {
		const before = this.before ? this.before.answered : {};
		const latency = this.before && this.before.latency_us;
		const per = (op, name) => rate(one.answered[op][name], before[op] && before[op][name], seconds);
		const reads = per("read", "requests");
		const rates = {
			read: per("read", "bytes"),
			write: per("write", "bytes"),
			operations: Object.keys(one.answered).reduce((sum, op) => sum + per(op, "requests"), 0),
		};
		this.plots.bytes.add(rates.read, rates.write);
		this.plots.operations.add(reads, rates.operations - reads);
		this.plots.latency.add(latency ? quantile(one.latency_us, latency, .5) : null,
			latency ? quantile(one.latency_us, latency, .99) : null);
		this.plots.queue.add(one.requests);
		this.before = {answered: one.answered, latency_us: one.latency_us};
		return rates;
	}

	show(one, connections, rates, seconds) {
		say(this.summary, together(operations(rates.operations)) + " · " +
			together(perSecond(rates.read + rates.write)) + " · " +
			one.connections + (one.connections === 1 ? " client" : " clients"));
		this.clients.show(connections, seconds);
		if (!this.element.open)
			return;
		this.showFacts(one);
		this.showCounters(one.counters);
		for (const plot of Object.values(this.plots))
			plot.show();
	}
}

// ---- the page

class Page {
	constructor() {
		this.exports = new Map(); // by name
		this.others = new Clients(true);
		at("others").append(this.others.element);
		this.tiles = {
			read: new Tile("Reads", "a", perSecond),
			write: new Tile("Writes", "b", perSecond),
			operations: new Tile("Requests", "a", operations),
			requests: new Tile("In flight", "c", count),
			clients: new Tile("Clients", "c", count),
		};
	}

	export(one, many) {
		if (!this.exports.has(one.name)) {
			const made = new Export(one, !many);
			this.exports.set(one.name, made);
			at("exports").append(made.element);
		}
		return this.exports.get(one.name);
	}

	forget(there) {
		for (const [name, one] of this.exports) {
			if (there.has(name))
				continue;
			one.element.remove();
			this.exports.delete(name);
		}
	}

	show(status, seconds) {
		const of = new Map(status.exports.map((one) => [one.name, []]));
		const others = [];
		for (const connection of status.connections)
			(of.get(connection.export) || others).push(connection);
		const sum = {read: 0, write: 0, operations: 0, requests: 0};
		this.forget(of);
		for (const one of status.exports) {
			const shown = this.export(one, status.exports.length > OPEN_MOST);
			const rates = shown.add(one, seconds);
			shown.show(one, of.get(one.name), rates, seconds);
			for (const name of Object.keys(rates))
				sum[name] += rates[name];
			sum.requests += one.requests;
		}
		this.others.show(others, seconds);
		at("others").hidden = others.length === 0;
		for (const [name, value] of Object.entries({...sum, clients: status.connections.length}))
			this.tiles[name].show(value);
		say(at("server"), "version " + status.version + " · " + status.threads +
			(status.threads === 1 ? " thread" : " threads") + " · TLS " + status.tls +
			(status.swap ? " · swap" : "") + " · process " + status.pid);
	}
}

// ---- asking

const NO_TOKEN = "This is not the server's token.";
const page = new Page();
let token = sessionStorage.getItem("token");
let asked = 0; // performance.now() of the last answer; 0: none
let seen = new Date();
let paused = false;
let busy = false; // an answer is awaited
let timer = 0;

function tell(text) {
	say(at("notice"), text);
	at("notice").hidden = !text;
}

async function answer() {
	const headers = token ? {Authorization: "Bearer " + token} : {};
	const response = await fetch("status.json", {headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE)});
	if (response.status === 401) {
		at("ask").hidden = false;
		tell(token ? NO_TOKEN : "");
		token = null;
		sessionStorage.removeItem("token");
		return false;
	}
	if (!response.ok)
		throw new Error("the server says " + response.status);
	const status = await response.json();
	const now = performance.now();
	page.show(status, asked ? (now - asked) / 1000 : 0);
	asked = now;
	seen = new Date();
	tell("");
	return true;
}

// One request after the other, none while nobody looks.
async function turn() {
	timer = 0;
	if (busy || paused || document.hidden)
		return;
	let goesOn = true;
	busy = true;
	try {
		goesOn = await answer();
	} catch (error) {
		tell("No answer from the server since " + seen.toLocaleTimeString() + ": " + error.message);
	}
	busy = false;
	if (goesOn)
		resume(INTERVAL);
}

function resume(delay) {
	clearTimeout(timer);
	timer = setTimeout(turn, delay);
}

at("pause").addEventListener("click", () => {
	paused = !paused;
	at("pause").setAttribute("aria-pressed", String(paused));
	say(at("pause"), paused ? "Go on" : "Pause");
	resume(0);
});
at("ask").addEventListener("submit", (event) => {
	event.preventDefault();
	const given = at("token").value.trim();
	at("token").value = "";
	// A token is visible ASCII, and fetch() can't send all other characters.
	if (!/^[!-~]+$/.test(given)) {
		tell(NO_TOKEN);
		return;
	}
	token = given;
	sessionStorage.setItem("token", token);
	at("ask").hidden = true;
	resume(0);
});
document.addEventListener("visibilitychange", () => resume(0));
turn();
