// SPDX-License-Identifier: BSD-3-Clause
// Asks the server for its status once a second, and shows it.  Names come from clients and
// administrators of images: they are only ever set as text.
"use strict";

const INTERVAL = 1000; // ms
const PATIENCE = 8000; // ms, for one answer
const SPAN = 120; // seconds in a plot
const RECENT = 10; // samples: for the order of exports, and for what is idle
const GAP = 3000; // ms without a sample: a line does not cross it
const STILL = 5000; // ms without an answer to a request in flight: trouble
const ARRANGE = 5000; // ms between changes of the order
const OPEN_MOST = 2; // with more exports, they begin folded

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
const operations = (value) => value > 0 && value < 10 ? [value.toFixed(1), "/s"] :
	scaled(value, 1000, ["/s", "k/s", "M/s"]);
const count = (value) => [String(value), ""];
const time = (us) => us === null ? ["–", ""] : scaled(us, 1000, ["µs", "ms", "s"]);
const whole = (value) => value.toLocaleString("en");
const several = (number, one, many) => whole(number) + " " + (number === 1 ? one : many);
const total = (numbers) => Object.values(numbers).reduce((sum, number) => sum + number, 0);

function duration(seconds) {
	const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
	return days ? days + " d " + hours % 24 + " h" : hours ? hours + " h " + minutes % 60 + " min" :
		minutes ? minutes + " min" : seconds + " s";
}
const together = ([number, unit]) => unit.startsWith("/") || !unit ? number + unit : number + " " + unit;

// ---- samples, and plots of them

// When the last samples were taken, in ms.  A series has as many values, or fewer if it began later.
const times = [];

function beginSample() {
	const now = performance.now();
	times.push(now);
	while (times[0] < now - SPAN * 1000)
		times.shift();
}

class Series {
	constructor() {
		this.values = [];
	}

	add(value) {
		this.values.push(value);
		this.values.splice(0, this.values.length - times.length);
	}

	recent() {
		return this.values.slice(-RECENT);
	}
}

class Line {
	constructor(svg, series, color, area) {
		this.series = series;
		this.area = area && draw("path", {class: "fill " + color});
		this.path = draw("path", {class: color});
		if (area)
			svg.append(this.area);
		svg.append(this.path);
	}

	// `height` gives the place of a value, from 0 to 1; null leaves a gap.
	show(height) {
		const values = this.series.values, first = times.length - values.length;
		let way = "", area = "", last = -1, place = "";
		values.forEach((value, i) => {
			if (value === null)
				return;
			const time = times[first + i];
			const x = (SPAN - (times.at(-1) - time) / 1000).toFixed(1);
			const point = x + " " + (100 - 96 * height(value)).toFixed(1);
			const goesOn = last >= 0 && last === i - 1 && time - times[first + last] < GAP;
			way += (goesOn ? "L" : "M") + point;
			area += goesOn ? "L" + point : (area ? "L" + place + " 100Z" : "") + "M" + x + " 100L" + point;
			// A sample alone is a short line.
			way += goesOn ? "" : "h-.6";
			last = i;
			place = x;
		});
		this.path.setAttribute("d", way);
		if (this.area)
			this.area.setAttribute("d", area && area + "L" + place + " 100Z");
	}
}

function canvas() {
	return draw("svg", {viewBox: "0 0 " + SPAN + " 100", preserveAspectRatio: "none", "aria-hidden": "true"});
}

function most(...all) {
	return Math.max(1, ...all.flatMap((series) => series.values));
}

class Plot {
	// `lines`: of [name, color, series]; `text`: what makes [number, unit] of a value.
	constructor(title, lines, text, logarithmic) {
		const svg = canvas();
		this.text = text;
		this.logarithmic = logarithmic;
		svg.append(draw("line", {x1: 0, x2: SPAN, y1: 4, y2: 4}),
			draw("line", {x1: SPAN / 2, x2: SPAN / 2, y1: 4, y2: 100}));
		this.series = lines.map(([, , series]) => series);
		this.lines = lines.map(([, color, series]) => new Line(svg, series, color, !logarithmic));
		this.most = make("span", "most");
		this.values = lines.map(() => make("b"));
		this.element = make("div", "plot", make("h3", "", title, this.most), svg,
			make("div", "axis", make("span", "", "2 min ago"), make("span", "", "1 min ago"), make("span", "", "now")),
			make("div", "legend", ...lines.map(([name, color], i) =>
				make("span", "", make("i", color), name + " ", this.values[i]))));
	}

	show() {
		const top = most(...this.series);
		const height = this.logarithmic ?
			(value) => Math.log(Math.max(value, 1)) / Math.log(Math.max(top, 2)) :
			(value) => value / top;
		say(this.most, this.series.some((one) => one.values.some(Boolean)) ? "up to " + together(this.text(top)) : "");
		this.lines.forEach((line, i) => {
			line.show(height);
			say(this.values[i], together(this.text(this.series[i].values.at(-1))));
		});
	}
}

// A small plot of one series, without words.
class Spark {
	constructor(series, color) {
		this.series = series;
		this.element = canvas();
		this.line = new Line(this.element, series, color, true);
	}

	show() {
		const top = most(this.series);
		this.line.show((value) => value / top);
	}
}

// A figure of the whole server, in large, with its past in small.
class Tile {
	constructor(title, color, text) {
		this.text = text;
		this.value = make("div", "value");
		this.spark = new Spark(new Series(), color);
		at("totals").append(make("div", "card", make("h3", "facts", title), this.value, this.spark.element));
	}

	show(value) {
		const [number, unit] = this.text(value);
		this.spark.series.add(value);
		this.spark.show();
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

const COLUMNS = ["Client", "In flight", "Reading", "Writing", "Read so far", "Written so far"];

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
		const tls = make("small"), held = make("small", "warn", "held back by a limit");
		who.append(tls, held);
		const cells = COLUMNS.slice(1).map((name) => {
			const cell = make("td");
			cell.dataset.label = name;
			return cell;
		});
		const row = {element: make("tr", "", who, ...cells), cells, tls, held};
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
			row.held.hidden = !one.limited;
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

// ---- what is wrong with an export, and what its users should know

// "1,000/s": the limits of a kind, as short as possible.
function rateText(rate, text) {
	const part = (name, before) => rate[name] ? [before + together(text(rate[name]))] : [];
	return [...part("both", ""), ...part("read", "reads "), ...part("write", "writes ")];
}

function limitsText(limits) {
	const all = [...rateText(limits.iops, (value) => [whole(value), "/s"]), ...rateText(limits.bandwidth, perSecond)];
	if (limits.connections)
		all.push(several(limits.connections, "connection", "connections"));
	return all.join(", ");
}

// Chips are [text, kind]; the kind is "bad" (trouble), "warn" or "".
function troubles(one, recent, still) {
	return [
		one.snapshot && one.snapshot.broken ? ["broken: " + one.snapshot.broken, "bad"] : [],
		one.changes_problem ? ["checkpoints: " + one.changes_problem, "bad"] : [],
		recent ? [several(recent, "error", "errors") + " in the last two minutes", "bad"] : [],
		still ? ["no request was answered for " + duration(Math.floor(still / 1000)), "bad"] : [],
	].filter((chip) => chip.length);
}

function remarks(one, errors, wait) {
	const limits = limitsText(one.limits), each = limitsText(one.client_limits);
	return [
		errors ? [several(errors, "error", "errors") + " since the start", "warn"] : [],
		one.read_only ? ["read-only", one.read_only_reason ? "warn" : ""] : [],
		one.looks_like ? ["looks like " + one.looks_like + ", served raw", "warn"] : [],
		limits ? ["limit " + limits, ""] : [],
		each ? ["limit of each client " + each, ""] : [],
		one.limited_now || wait !== null ?
			[several(one.limited_now, "request", "requests") + " held" +
				(wait === null ? "" : ", wait " + together(time(wait))), "warn"] : [],
		one.snapshot ? ["snapshot of " + (one.snapshot.of || "the export without a name"), ""] : [],
	].filter((chip) => chip.length);
}

function showChips(list, chips) {
	const key = JSON.stringify(chips);
	if (key === list.dataset.key)
		return;
	list.dataset.key = key;
	list.replaceChildren(...chips.map(([text, kind]) => make("li", kind, foreign(text))));
}

// ---- an export: a row with the figures of now, which opens to show the plots

const FIGURES = ["Requests", "Reads", "Writes", "p99", "In flight", "Clients"];
const SERIES = ["requests", "reads", "others", "read", "write", "p50", "p99", "inFlight", "held", "errors",
	"diskReads", "diskOthers", "diskRead", "diskWritten"];

class Export {
	constructor(one, open) {
		this.series = Object.fromEntries(SERIES.map((name) => [name, new Series()]));
		this.chips = make("ul", "chips");
		this.spark = new Spark(this.series.requests, "a");
		this.cells = FIGURES.map((name) => {
			const cell = make("span", "cell");
			cell.dataset.label = name;
			return cell;
		});
		this.element = make("details", "card",
			make("summary", "", make("div", "name", make("b", one.name ? "" : "nameless",
				foreign(one.name || "the export without a name")), this.chips),
				this.spark.element, ...this.cells));
		this.element.open = open;
		this.element.dataset.export = one.name;
		this.element.addEventListener("toggle", () => this.showBody());
		this.reset();
	}

	// The server was started anew: its counters began at 0.
	reset() {
		this.before = undefined;
		this.latencies = []; // the last ones
		this.progress = 0; // when a request was answered last, or none was in flight; ms
	}

	// Made when it is looked at first: a server may have very many exports.
	makeBody() {
		const of = this.series;
		this.asked = [
			new Plot("Requests", [["reads", "a", of.reads], ["all others", "b", of.others]], operations),
			new Plot("Throughput", [["reads", "a", of.read], ["writes", "b", of.write]], perSecond),
			new Plot("Latency", [["median (p50)", "a", of.p50], ["p99", "b", of.p99]], time, true),
			new Plot("Queue", [["in flight", "c", of.inFlight], ["held by a limit", "b", of.held]],
				(value) => count(Math.round(value))),
		];
		this.done = [
			new Plot("Operations", [["reads", "a", of.diskReads], ["all others", "b", of.diskOthers]], operations),
			new Plot("Throughput", [["read", "a", of.diskRead], ["written", "b", of.diskWritten]], perSecond),
		];
		this.facts = make("p", "facts");
		this.choices = make("ul", "chips");
		this.clients = new Clients(false);
		this.counters = make("dl");
		this.counter = new Map();
		this.body = make("div", "body", this.facts, this.choices,
			make("h3", "group", "Asked for by clients"),
			make("div", "plots", ...this.asked.map((plot) => plot.element)),
			make("h3", "group", "Done on the disk"),
			make("div", "plots", ...this.done.map((plot) => plot.element)),
			this.clients.element,
			make("details", "more", make("summary", "", "Operations on the disk since the start"), this.counters));
		this.element.append(this.body);
	}

	showFacts(one) {
		const facts = [one.description, one.file, together(bytes(one.size))].filter(Boolean).join(" · ");
		if (facts !== this.facts.textContent)
			this.facts.replaceChildren(foreign(facts));
		const because = (text, reason) => [reason ? text + ": " + reason : text, reason ? "warn" : ""];
		showChips(this.choices, [
			because(one.engine, one.engine_reason),
			because("direct I/O " + (one.direct_io ? "on" : "off"), one.direct_io_reason),
			because(one.read_only ? "read-only" : "writable", one.read_only_reason),
			...one.checkpoints.length ? [[several(one.checkpoints.length, "checkpoint", "checkpoints"), ""]] : [],
			...one.limited ? [[several(one.limited, "request", "requests") + " held back since the start, " +
				together(time(one.limited_us)) + " altogether", ""]] : [],
		]);
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

	// Returns what of this second the server's sums need.
	add(one, seconds) {
		const before = this.before || {answered: {}, counters: {}};
		const answered = (op, name) => {
			const was = before.answered[op];
			return rate(one.answered[op][name], was && was[name], seconds);
		};
		const counter = (...names) => names.reduce((sum, name) =>
			sum + rate(one.counters[name], before.counters[name], seconds), 0);
		const all = (name) => Object.keys(one.answered).reduce((sum, op) => sum + answered(op, name), 0);
		const now = {
			requests: all("requests"),
			reads: answered("read", "requests"),
			read: answered("read", "bytes"),
			write: answered("write", "bytes"),
			errors: all("errors") * seconds,
			inFlight: one.requests,
			held: one.limited_now,
			p50: this.before ? quantile(one.latency_us, before.latency_us, .5) : null,
			p99: this.before ? quantile(one.latency_us, before.latency_us, .99) : null,
			diskReads: counter("reads"),
			diskOthers: counter("writes", "flushes", "discards", "zeroes"),
			diskRead: counter("read_bytes"),
			diskWritten: counter("write_bytes"),
		};
		now.others = now.requests - now.reads;
		for (const name of SERIES)
			this.series[name].add(now[name]);
		if (!this.progress || now.requests || !one.requests)
			this.progress = times.at(-1);
		this.still = times.at(-1) - this.progress;
		this.p99 = this.latencies.length ? quantile(one.latency_us, this.latencies[0], .99) : null;
		this.latencies.push(one.latency_us);
		this.latencies.splice(0, this.latencies.length - RECENT);
		// How long those requests were held that a limit let go since: on average, in microseconds.
		const held = this.before ? one.limited - before.limited : 0;
		const waited = this.before ? one.limited_us - before.limited_us : 0;
		this.wait = held > 0 && waited > 0 ? waited / held : one.limited_now ? this.wait : null;
		this.before = {answered: one.answered, counters: one.counters, latency_us: one.latency_us,
			limited: one.limited, limited_us: one.limited_us};
		return now;
	}

	show(one, connections) {
		const now = (name) => this.series[name].values.at(-1);
		const errors = total(Object.values(one.answered).map((op) => op.errors));
		const recent = Math.round(total(this.series.errors.values));
		const bad = troubles(one, recent, this.still > STILL ? this.still : 0);
		this.state = {one, connections};
		this.trouble = bad.length > 0;
		this.element.classList.toggle("trouble", this.trouble);
		this.words = [one.name, one.file, one.description || ""].join("\n").toLowerCase();
		this.busy = total(this.series.requests.recent()) / RECENT;
		this.idle = !this.busy && !one.requests && !this.trouble && !one.limited_now;
		showChips(this.chips, [...bad, ...remarks(one, recent ? 0 : errors, this.wait)]);
		[together(operations(now("requests"))), together(perSecond(now("read"))), together(perSecond(now("write"))),
			together(time(this.p99)), whole(one.requests), whole(one.connections)]
			.forEach((text, i) => say(this.cells[i], text));
		this.element.classList.toggle("idle", this.idle);
		if (!this.element.hidden)
			this.spark.show();
	}

	// `seconds`: since the last time, or 0.
	showBody(seconds = 0) {
		if (!this.element.open || !this.state)
			return;
		if (!this.body)
			this.makeBody();
		this.showFacts(this.state.one);
		this.showCounters(this.state.one.counters);
		this.clients.show(this.state.connections, seconds);
		for (const plot of [...this.asked, ...this.done])
			plot.show();
	}
}

// ---- the page

const ORDERS = {
	name: () => 0,
	busiest: (a, b) => b.busy - a.busy,
	slowest: (a, b) => (b.p99 || 0) - (a.p99 || 0),
};
const collator = new Intl.Collator("en", {numeric: true});

class Page {
	constructor() {
		this.exports = new Map(); // by name
		this.arranged = 0; // when; ms
		this.others = new Clients(true);
		at("others").append(this.others.element);
		at("columns").append(...["Export", "Last 2 min", ...FIGURES].map((name) => make("span", "", name)));
		this.tiles = {
			read: new Tile("Read by clients", "a", perSecond),
			write: new Tile("Written by clients", "b", perSecond),
			requests: new Tile("Requests", "a", operations),
			operations: new Tile("Disk operations", "b", operations),
			inFlight: new Tile("In flight", "c", count),
			clients: new Tile("Clients", "c", count),
		};
	}

	export(one, many) {
		if (!this.exports.has(one.name)) {
			const made = new Export(one, !many);
			this.exports.set(one.name, made);
			at("exports").append(made.element);
			this.arranged = 0;
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

	// Which exports are shown, and in which order.  The order stays while somebody points at one.
	arrange(now) {
		const words = at("search").value.trim().toLowerCase(), hide = at("idle").checked;
		const list = at("exports"), used = list.contains(document.activeElement) &&
			document.activeElement.matches(":focus-visible");
		let shown = 0, bad = 0;
		for (const one of this.exports.values()) {
			one.element.hidden = !one.words.includes(words) || hide && one.idle;
			shown += !one.element.hidden;
			bad += one.trouble;
		}
		say(at("shown"), shown + " of " + several(this.exports.size, "export", "exports") +
			(bad ? ", " + bad + " in trouble" : ""));
		at("columns").hidden = shown === 0;
		if (!now && this.arranged && (used || list.matches(":hover") || times.at(-1) - this.arranged < ARRANGE))
			return;
		this.arranged = times.at(-1);
		const first = at("trouble").checked ? (a, b) => b.trouble - a.trouble : () => 0;
		const order = ORDERS[at("sort").value];
		let place = list.firstElementChild;
		for (const one of [...this.exports.entries()].sort(([a, one], [b, other]) =>
			first(one, other) || order(one, other) || collator.compare(a, b))) {
			const element = one[1].element;
			if (element === place)
				place = place.nextElementSibling;
			else
				list.insertBefore(element, place);
		}
	}

	show(status, seconds) {
		const of = new Map(status.exports.map((one) => [one.name, []]));
		const others = [];
		const sum = {read: 0, write: 0, requests: 0, operations: 0, inFlight: 0, clients: status.connections.length};
		for (const connection of status.connections)
			(of.get(connection.export) || others).push(connection);
		beginSample();
		this.forget(of);
		if (this.pid !== status.pid)
			this.exports.forEach((one) => one.reset());
		this.pid = status.pid;
		for (const one of status.exports) {
			const shown = this.export(one, status.exports.length > OPEN_MOST);
			const now = shown.add(one, seconds);
			shown.show(one, of.get(one.name));
			shown.showBody(seconds);
			for (const name of ["read", "write", "requests", "inFlight"])
				sum[name] += now[name];
			sum.operations += now.diskReads + now.diskOthers;
		}
		at("choice").hidden = status.exports.length < 2;
		this.arrange(false);
		this.others.show(others, seconds);
		at("others").hidden = others.length === 0;
		for (const [name, value] of Object.entries(sum))
			this.tiles[name].show(value);
		say(at("host"), "nbdloopd on " + status.host);
		document.title = status.host + " – nbdloopd";
		say(at("server"), "up " + duration(status.uptime) + " · version " + status.version + " · " +
			several(status.threads, "thread", "threads") + " · TLS " + status.tls +
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
	document.body.classList.remove("gone");
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
		document.body.classList.add("gone");
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
at("choice").addEventListener("input", () => page.arrange(true));
at("choice").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("visibilitychange", () => resume(0));
turn();
