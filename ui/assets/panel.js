// Panels: HTML made by the server, patched into the page in place. Unchanged nodes stay the same nodes, so
// nothing flickers, and focus, selection, scroll position and opened folds survive a refresh.

function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null
}

function syncAttributes(from, to) {
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(from.nodeName === "DETAILS" && name === "open")) from.removeAttribute(name)
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value)
  }
}

function morphChildren(from, to) {
  const keyed = new Map()
  const rest = []
  for (const child of from.childNodes) {
    const key = keyOf(child)
    if (key === null) rest.push(child)
    else keyed.set(key, child)
  }
  let place = from.firstChild
  for (const wanted of [...to.childNodes]) {
    const key = keyOf(wanted)
    let found = null
    if (key !== null) {
      found = keyed.get(key) ?? null
      if (found && !sameKind(found, wanted)) found = null
      if (found) keyed.delete(key)
    } else {
      const at = rest.findIndex((node) => sameKind(node, wanted))
      if (at >= 0) found = rest.splice(at, 1)[0]
    }
    if (!found) {
      from.insertBefore(wanted, place)
      continue
    }
    if (found === place) place = place.nextSibling
    else from.insertBefore(found, place)
    morph(found, wanted)
  }
  for (const left of [...keyed.values(), ...rest]) left.remove()
}

function morph(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data
    return
  }
  syncAttributes(from, to)
  morphChildren(from, to)
}

const tip = {
  box: null,
  owner: null,
  show(owner) {
    if (!this.box) {
      this.box = document.createElement("div")
      this.box.className = "ts-tip"
      this.box.setAttribute("role", "tooltip")
      document.body.append(this.box)
    }
    const style = getComputedStyle(owner)
    for (const name of ["--st-text-color", "--st-secondary-background-color", "--st-border-color", "--st-font"]) {
      this.box.style.setProperty(name, style.getPropertyValue(name))
    }
    this.owner = owner
    this.box.textContent = owner.dataset.tip
    this.box.hidden = false
    const at = owner.getBoundingClientRect()
    const size = this.box.getBoundingClientRect()
    const left = Math.min(Math.max(8, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 8)
    const below = at.bottom + 6
    const top = below + size.height > innerHeight - 8 ? Math.max(8, at.top - size.height - 6) : below
    this.box.style.left = `${left}px`
    this.box.style.top = `${top}px`
  },
  hide() {
    this.owner = null
    if (this.box) this.box.hidden = true
  },
  refresh() {
    if (this.owner && !this.owner.isConnected) this.hide()
    else if (this.owner && this.box.textContent !== this.owner.dataset.tip) this.show(this.owner)
  },
}

function listenOnce(root) {
  if (root.tsListening) return
  root.tsListening = true
  const tipped = (event) => event.target.closest?.("[data-tip]")
  root.addEventListener("mouseover", (event) => {
    const owner = tipped(event)
    if (owner) tip.show(owner)
    else tip.hide()
  })
  root.addEventListener("mouseleave", () => tip.hide())
  root.addEventListener("focusin", (event) => {
    const owner = tipped(event)
    if (owner && event.target.matches(":focus-visible")) tip.show(owner)
  })
  root.addEventListener("focusout", () => tip.hide())
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") tip.hide()
  })
  root.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy]")
    if (copy) return copied(copy)
    const row = event.target.closest("[data-row]")
    const link = event.target.closest("a[data-page]") ?? (event.target.closest("a,button,summary") ? null : row?.querySelector("a[data-page]"))
    if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return
    if (String(getSelection())) return
    event.preventDefault()
    tip.hide()
    // As if the reader had gone there with the browser: Streamlit opens the page in the running session, and
    // "back" leads here again with what the address says now.
    history.pushState({}, "", link.href)
    window.dispatchEvent(new PopStateEvent("popstate", { state: {} }))
  })
}

async function copied(button) {
  const word = button.textContent
  try {
    await navigator.clipboard.writeText(button.dataset.copy)
    button.textContent = "copied"
  } catch {
    button.textContent = "not allowed by the browser"
  }
  setTimeout(() => (button.textContent = word), 1200)
}

// A chosen row is scrolled into its table once, when it becomes the chosen one.
function showChosen(root) {
  const row = root.querySelector("tr.chosen")
  const key = row?.dataset.key ?? null
  if (key === (root.tsChosen ?? null)) return
  root.tsChosen = key
  const box = row?.closest(".ts-scroll")
  if (box) box.scrollTop = Math.max(0, row.offsetTop - box.clientHeight / 2)
}

function panel({ data, parentElement }) {
  let root = parentElement.querySelector(":scope > .ts")
  if (!root) {
    root = document.createElement("div")
    root.className = "ts"
    parentElement.append(root)
  }
  listenOnce(root)
  if (root.tsHtml === data.html) return
  root.tsHtml = data.html
  const wanted = document.createElement("template")
  wanted.innerHTML = data.html
  morphChildren(root, wanted.content)
  showChosen(root)
  tip.refresh()
}
