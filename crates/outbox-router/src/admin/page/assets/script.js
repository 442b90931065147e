// Replaces the blocks of the page as the router sends them, and says when it no longer does.
"use strict";
(() => {
  // Events come once a second, or every four seconds where many pages are open.
  const QUIET = 7000;
  const AGAIN = 2000;
  const KEPT = 30000;

  const root = document.documentElement;
  const { body } = document;
  const byId = (id) => document.getElementById(id);
  const [lost, lostSince, spoken, icon] = ["lost", "lost-since", "spoken", "icon"].map(byId);
  const blocks = [...document.querySelectorAll("main > [id]")].map((block) => block.id);

  let source;
  let at = body.dataset.at;
  let heard = performance.now();
  let opened = heard;
  let marked = heard;

  const open = () => {
    source?.close();
    opened = performance.now();
    source = new EventSource(body.dataset.events);
    for (const id of blocks) source.addEventListener(id, ({ data }) => replace(id, data));
    source.addEventListener("at", ({ data }) => {
      at = data;
      heard = performance.now();
      show();
    });
  };

  // A person who marks a command keeps it for a while.
  const isMarked = (block) => {
    const selection = getSelection();
    return !selection.isCollapsed && block.contains(selection.anchorNode)
      && block.querySelector("pre") && performance.now() - marked < KEPT;
  };

  const replace = (id, html) => {
    const block = byId(id);
    if (isMarked(block)) return;
    const focused = block.contains(document.activeElement) ? document.activeElement.id : "";
    block.outerHTML = html;
    if (focused) byId(focused)?.focus({ preventScroll: true });
  };

  const show = () => {
    const isLost = performance.now() - heard > QUIET;
    const { title, icon: shape, spoken: words } = byId("verdict").dataset;
    if (isLost && lost.hidden) lostSince.textContent = at;
    lost.hidden = !isLost;
    root.classList.toggle("is-lost", isLost);
    const set = (node, key, value) => { if (node[key] !== value) node[key] = value; };
    set(document, "title", isLost ? `NO ANSWER · ${body.dataset.name}` : title);
    set(icon, "href", isLost ? lost.dataset.icon : shape);
    set(spoken, "textContent", isLost ? "" : words);
  };

  const watch = () => {
    show();
    const isQuiet = performance.now() - Math.max(heard, opened) > QUIET;
    const isClosed = source.readyState === EventSource.CLOSED;
    if (isQuiet || (isClosed && performance.now() - opened > AGAIN)) open();
  };

  const copy = async (button) => {
    const text = byId(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    } catch {
      // Without HTTPS there is no clipboard: the text is marked, to be copied by the keyboard.
      getSelection().selectAllChildren(text);
    }
  };

  root.classList.add("has-script");
  document.addEventListener("click", ({ target }) => {
    if (target.matches("button.copy")) copy(target);
  });
  document.addEventListener("selectionchange", () => { marked = performance.now(); });
  document.addEventListener("visibilitychange", watch);
  addEventListener("pageshow", ({ persisted }) => { if (persisted) open(); });
  setInterval(watch, 1000);
  open();
  show();
})();
