// Live charts: plotly figures redrawn in place with Plotly.react. Numbers arrive as float arrays behind a JSON
// header: [uint32 header length][header][padding to 8][arrays]; {"$f8": [offset, n]} and {"$f4": ...} name them.
// {"$t": seconds} is a time; "@name" is a colour of the theme. Charts of one group share range and cursor.

const groups = new Map()
let plotlyScript = null

function plotly(url) {
  plotlyScript ??= new Promise((resolve, reject) => {
    if (window.Plotly) return resolve(window.Plotly)
    const script = document.createElement("script")
    script.src = url
    script.onload = () => resolve(window.Plotly)
    script.onerror = () => {
      plotlyScript = null
      reject(new Error(`${url} could not be loaded`))
    }
    document.head.append(script)
  })
  return plotlyScript
}

// Plotly takes numbers as epoch milliseconds, draws them in the browser's zone, and tells ranges as local time.
const toMs = (seconds) => seconds * 1000
const toSeconds = (local) => {
  if (typeof local === "number") return local / 1000
  const [day, time] = String(local).split(" ")
  // Without a time the standard reads a date as UTC, with one as local.
  return Date.parse(`${day}T${time ?? "00:00"}`) / 1000
}

function zoneName(seconds) {
  const minutes = -new Date(seconds * 1000).getTimezoneOffset()
  const two = (n) => String(n).padStart(2, "0")
  const sign = minutes < 0 ? "−" : "+"
  return minutes ? `UTC${sign}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}` : "UTC"
}

function decode(bytes) {
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
  const length = new DataView(buffer).getUint32(0, true)
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)))
  const base = Math.ceil((4 + length) / 8) * 8
  return { header, base, buffer }
}

function themeOf(element) {
  const style = getComputedStyle(element)
  const read = (name, otherwise) => style.getPropertyValue(`--st-${name}`).trim() || otherwise
  const text = read("text-color", "#888")
  return {
    text,
    background: read("background-color", "transparent"),
    panel: read("secondary-background-color", "transparent"),
    grid: read("border-color", "rgba(128,128,128,.25)"),
    faint: `color-mix(in srgb, ${text} 62%, transparent)`,
    label: `color-mix(in srgb, ${read("background-color", "#fff")} 78%, transparent)`,
    red: read("red-text-color", "#d0342c"),
    amber: read("yellow-text-color", "#b87700"),
    grey: read("gray-text-color", "#7c857a"),
    bar: "rgba(128,138,126,.5)",
    red_soft: "rgba(224,64,56,.28)",
    grey_soft: "rgba(128,138,126,.45)",
    font: read("font", "sans-serif"),
  }
}

// Plotly does not understand color-mix: let the browser compute the rgb value.
function rgb(element, color) {
  const probe = document.createElement("span")
  probe.style.color = color
  element.append(probe)
  const mixed = getComputedStyle(probe).color
  probe.remove()
  const srgb = mixed.match(/color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)(?: \/ ([\d.]+))?\)/)
  if (!srgb) return mixed
  const [r, g, b] = srgb.slice(1, 4).map((part) => Math.round(part * 255))
  return `rgba(${r},${g},${b},${srgb[4] ?? 1})`
}

function resolve(value, parts, theme) {
  if (typeof value === "string") return value.startsWith("@") ? theme[value.slice(1)] ?? value : value
  if (value === null || typeof value !== "object") return value
  if (Array.isArray(value)) return value.map((item) => resolve(item, parts, theme))
  if ("$t" in value) return toMs(value.$t)
  if ("$f8" in value) return new Float64Array(parts.buffer, parts.base + value.$f8[0], value.$f8[1])
  if ("$f4" in value) return new Float32Array(parts.buffer, parts.base + value.$f4[0], value.$f4[1])
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolve(item, parts, theme)]))
}

function themed(layout, theme, header) {
  const axis = { gridcolor: theme.grid, linecolor: theme.grid, zerolinecolor: theme.grid, tickcolor: theme.grid }
  for (const name of Object.keys(layout)) {
    if (/^[xy]axis\d*$/.test(name)) layout[name] = { ...axis, ...layout[name] }
  }
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)"
  layout.font = { ...layout.font, color: theme.faint, family: theme.font, size: 11 }
  layout.hoverlabel = { bgcolor: theme.panel, bordercolor: theme.grid, font: { color: theme.text, size: 12 } }
  if (header.time) {
    const moment = header.range[1] - header.range[0] > 43200 ? "%a %d %b %H:%M" : "%H:%M:%S"
    layout.xaxis.unifiedhovertitle = { text: `<b>%{x|${moment}}</b> ${zoneName(header.range[1])}` }
  }
  return layout
}

function build(host) {
  const root = document.createElement("div")
  root.className = "ts ts-plot"
  root.innerHTML =
    '<div class="ts-plot-head"><span class="ts-plot-title"></span><span class="ts-plot-unit"></span>' +
    '<span class="ts-plot-badge" hidden></span><span class="ts-plot-note"></span></div>' +
    '<div class="ts-plot-box"><div class="ts-plot-canvas"></div><div class="ts-plot-cursor" hidden></div>' +
    '<div class="ts-plot-empty" hidden></div></div><div class="ts-plot-legend"></div>'
  host.append(root)
  const pick = (name) => root.querySelector(`.ts-plot-${name}`)
  const state = { root, hidden: new Set(), group: null, header: null, drawn: false }
  for (const name of ["title", "unit", "badge", "note", "canvas", "cursor", "empty", "legend"]) state[name] = pick(name)
  return state
}

function join(state, name) {
  if (state.group?.name === name) return
  leave(state)
  if (!groups.has(name)) groups.set(name, { name, members: new Set(), range: null })
  state.group = groups.get(name)
  state.group.members.add(state)
}

function leave(state) {
  const group = state.group
  group?.members.delete(state)
  if (group && !group.members.size) groups.delete(group.name)
  state.group = null
}

function showLegend(state) {
  const { legend, header } = state
  const wanted = document.createElement("div")
  for (const item of header.legend) {
    const button = document.createElement("button")
    button.type = "button"
    button.dataset.key = item.name
    button.className = "ts-legend-item"
    button.setAttribute("aria-pressed", String(!state.hidden.has(item.name)))
    button.title = `${item.name}: click to hide or show, double click for this one alone`
    const mark = document.createElement("i")
    mark.className = `ts-swatch ts-swatch-${item.mark}`
    mark.style.setProperty("--ts-swatch", item.color)
    const name = document.createElement("span")
    name.className = "ts-legend-name"
    name.textContent = item.name
    const value = document.createElement("b")
    value.textContent = item.last
    button.append(mark, name, value)
    wanted.append(button)
  }
  morphChildren(legend, wanted)
}

function listenLegend(state) {
  state.legend.addEventListener("click", (event) => {
    const name = event.target.closest("button")?.dataset.key
    if (name === undefined) return
    const all = state.header.legend.map((item) => item.name)
    if (event.detail === 2) {
      const alone = all.every((other) => other === name || state.hidden.has(other))
      state.hidden = new Set(alone ? [] : all.filter((other) => other !== name))
    } else if (state.hidden.has(name)) state.hidden.delete(name)
    else state.hidden.add(name)
    redraw(state)
  })
}

function listenPlot(state) {
  const { canvas } = state
  canvas.on("plotly_relayout", (change) => {
    if (!state.header.time || !state.group) return
    const from = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0]
    const to = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1]
    if (change["xaxis.autorange"]) state.group.range = null
    else if (from !== undefined && to !== undefined) state.group.range = [toSeconds(from), toSeconds(to)]
    else return
    for (const other of state.group.members) redraw(other)
  })
  canvas.on("plotly_doubleclick", () => {
    if (state.group) {
      state.group.range = null
      for (const other of state.group.members) redraw(other)
    }
    return false
  })
  canvas.on("plotly_hover", (event) => {
    if (!state.header.time || !event.xvals?.length) return
    for (const other of state.group?.members ?? []) if (other !== state) cursor(other, event.xvals[0])
  })
  canvas.on("plotly_unhover", () => {
    for (const other of state.group?.members ?? []) other.cursor.hidden = true
  })
}

function cursor(state, x) {
  const axis = state.canvas._fullLayout?.xaxis
  if (!axis || !state.header.time) return
  const at = axis.d2p(x)
  state.cursor.hidden = !(at >= 0 && at <= axis._length)
  state.cursor.style.left = `${axis._offset + at}px`
}

function redraw(state) {
  const { header, parts } = state
  if (!header || header.empty) return
  const theme = themeOf(state.root)
  theme.faint = rgb(state.root, theme.faint)
  theme.label = rgb(state.root, theme.label)
  const traces = resolve(header.traces, parts, theme)
  for (const trace of traces) {
    if (header.time) trace.x = Float64Array.from(trace.x, toMs)
    trace.visible = !state.hidden.has(trace.legendgroup)
  }
  const layout = themed(resolve(header.layout, parts, theme), theme, header)
  if (header.time) {
    const range = state.group?.range ?? header.range
    layout.xaxis.range = range.map(toMs)
    layout.xaxis.autorange = false
  }
  showLegend(state)
  plotly(header.script).then(
    (Plotly) => {
      if (state.gone) return
      const config = { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false }
      state.drawing = Plotly.react(state.canvas, traces, layout, config)
      if (!state.drawn) {
        state.drawn = true
        listenPlot(state)
      }
    },
    (error) => empty(state, `The chart script did not arrive: ${error.message}. Reload the page.`),
  )
}

function empty(state, sentence) {
  state.empty.hidden = !sentence
  state.empty.textContent = sentence ?? ""
  state.canvas.style.visibility = sentence ? "hidden" : "visible"
  state.legend.hidden = Boolean(sentence)
}

function plot({ data, parentElement }) {
  const state = (parentElement.tsPlot ??= build(parentElement))
  if (!state.listening) {
    state.listening = true
    listenOnce(state.root)
    listenLegend(state)
    state.later = () => !document.hidden && state.waiting && ((state.waiting = false), redraw(state))
    document.addEventListener("visibilitychange", state.later)
  }
  const parts = decode(data)
  const { header } = parts
  Object.assign(state, { parts, header })
  join(state, header.group)
  state.root.style.setProperty("--ts-plot-height", `${header.height}px`)
  state.title.textContent = header.title
  state.title.toggleAttribute("data-tip", Boolean(header.help))
  if (header.help) state.title.dataset.tip = header.help
  state.unit.textContent = header.unit
  state.badge.textContent = header.badge
  state.badge.hidden = !header.badge
  state.note.textContent = header.note
  empty(state, header.empty)
  if (header.empty) showLegend(state) // unseen: it keeps the card as high as its neighbours
  if (document.hidden && state.drawn) state.waiting = true
  else redraw(state)
  return () => {
    state.gone = true
    leave(state)
    document.removeEventListener("visibilitychange", state.later)
    parentElement.tsPlot = undefined
    // Not while a drawing is under way: it would go on with a chart that is no more.
    const purge = () => setTimeout(() => window.Plotly?.purge(state.canvas), 500)
    Promise.resolve(state.drawing).then(purge, purge)
  }
}
