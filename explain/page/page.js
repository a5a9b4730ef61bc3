// What the page does when somebody points, clicks or types. The page is whole without it.
// Facts come from the JSON in the page (docs/explain.md), places from attributes of the drawing.
//
// SPDX-License-Identifier: Apache-2.0
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const index = new Map(data.ops.map((op, i) => [op.name, i]));
  const edges = data.edges.map(e => ({...e, a: index.get(e.from), b: index.get(e.to)}));
  const values = new Map(data.values.map(v => [index.get(v.value), v]));
  const all = query => Array.from(document.querySelectorAll(query));
  const detail = document.getElementById('detail');
  const scroll = document.getElementById('scroll');
  const svg = scroll.querySelector('svg');
  const length = Number(svg.dataset.end), height = svg.getAttribute('height');
  const steady = [Number(svg.dataset.steadyBegin), Number(svg.dataset.steadyEnd)];
  const parts = all('[data-op]').map(el => ({el, op: Number(el.dataset.op)}));
  const bars = all('.bar');
  const nodes = all('.node');
  let picked = -1;

  // Titles become labels: the panel says more than a tooltip, and readers of screens keep them.
  for (const el of [...bars, ...nodes, ...all('.arrow')]) {
    const title = el.querySelector('title');
    if (!title) continue;
    el.setAttribute('aria-label', title.textContent);
    title.remove();
  }
  for (const el of [...bars, ...nodes]) {
    el.setAttribute('role', 'button');
    el.setAttribute('tabindex', '-1');
  }

  // --- the panel
  const element = (name, text, classes) => {
    const el = document.createElement(name);
    if (text !== undefined) el.textContent = text;
    if (classes) el.className = classes;
    return el;
  };
  const words = {register: 'registers', smem: 'shared memory', tmem: 'tensor memory',
                 order: 'order only'};
  const sizes = {registers: 'registers per thread', smem: 'bytes', tmem: 'columns'};
  const opButton = op => {
    const el = element('button', data.ops[op].name, 'op');
    el.dataset.op = op;
    el.type = 'button';
    return el;
  };
  const row = (list, name, value) => {
    list.append(element('dt', name), element('dd', String(value)));
  };
  const neighbours = (title, list, other) => {
    if (!list.length) return;
    detail.append(element('h3', title));
    const ul = element('ul');
    for (const e of list) {
      const li = element('li');
      const cost = e.transfer ? `${e.delay} + ${e.transfer}` : `${e.delay}`;
      const later = e.distance ? `, ${e.distance} later` : '';
      li.append(opButton(e[other]),
                element('span', `${words[e.kind]}${later}, ${cost} cycles, slack ${e.slack}`));
      ul.append(li);
    }
    detail.append(ul);
  };
  const show = (op, bar) => {
    const o = data.ops[op];
    detail.replaceChildren(element('h2', o.name));
    const slice = o.slice >= 0 ? `, slice ${o.slice}` : '';
    detail.append(element('p', `${o.kind} in ${o.role}${slice}`, 'kind'));
    if (o.at) {
      const source = element('div', undefined, 'source');
      source.append(element('b', `${o.at.file}:${o.at.line}`), document.createTextNode(o.at.text));
      for (const at of o.also)
        source.append(element('b', `with line ${at.line}`), document.createTextNode(at.text));
      detail.append(source);
    }
    const list = element('dl');
    if (bar) row(list, `iteration ${bar.dataset.i}`, `${bar.dataset.b} … ${bar.dataset.e}`);
    row(list, 'slot', `${o.slot} of ${data.ii}`);
    row(list, 'stage', o.stage);
    row(list, 'cycle', o.cycle);
    row(list, 'issue', o.issue);
    row(list, 'latency', o.latency);
    for (const use of o.uses) row(list, `unit ${use.unit}`, use.cycles);
    const value = values.get(op);
    if (value) {
      row(list, 'value', `${value.size} ${sizes[value.medium]}`);
      row(list, 'alive', `${value.end - value.begin} cycles, ${value.alive} at a time`);
      if (value.depth) row(list, 'ring', `${value.depth} slot${value.depth > 1 ? 's' : ''}`);
    }
    detail.append(list);
    neighbours('Needs', edges.filter(e => e.b === op), 'a');
    neighbours('Feeds', edges.filter(e => e.a === op), 'b');
  };
  const hint = detail.innerHTML;

  // --- highlights
  const mark = () => {
    const on = new Set(picked < 0 ? [] : [picked]);
    for (const e of edges) {
      if (e.a === picked) on.add(e.b);
      if (e.b === picked) on.add(e.a);
    }
    document.body.classList.toggle('picked', picked >= 0);
    for (const part of parts) {
      part.el.classList.toggle('on', on.has(part.op));
      part.el.classList.toggle('sel', part.op === picked);
    }
    for (const el of all('.arrow')) {
      const e = edges[Number(el.dataset.edge)];
      el.classList.toggle('on', picked >= 0 && (e.a === picked || e.b === picked));
    }
    for (const el of all('tr[data-ops]'))
      el.classList.toggle('on', el.dataset.ops.split(',').map(Number).includes(picked));
  };
  const near = ops => {
    for (const part of parts) part.el.classList.toggle('near', ops.includes(part.op));
  };
  const pick = (op, bar) => {
    picked = op;
    mark();
    if (op < 0) detail.innerHTML = hint;
    else show(op, bar);
  };
  const barOf = el => el && el.classList.contains('bar') ? el : null;
  document.addEventListener('mouseover', event => {
    const el = event.target.closest('[data-op]');
    if (el) {
      near([Number(el.dataset.op)]);
      if (!detail.contains(el)) show(Number(el.dataset.op), barOf(el));
      return;
    }
    const reason = event.target.closest('li[data-ops]');
    near(reason ? reason.dataset.ops.split(',').map(Number) : []);
    if (!detail.contains(event.target) && picked >= 0) show(picked);
  });
  document.addEventListener('click', event => {
    const el = event.target.closest('[data-op]');
    if (el) pick(Number(el.dataset.op), barOf(el));
    else if (event.target.closest('svg')) pick(-1);
  });

  // --- keyboard: one stop per drawing, arrows inside
  const lanes = all('.lanebars').map(g => Array.from(g.querySelectorAll('.bar')))
                    .filter(list => list.length);
  const stop = (list, el) => {
    for (const other of list) other.setAttribute('tabindex', other === el ? '0' : '-1');
    return el;
  };
  const go = (list, el) => {
    if (!el) return;
    stop(list, el);
    el.focus();
    show(Number(el.dataset.op), barOf(el));
    near([Number(el.dataset.op)]);
    if (el.classList.contains('bar')) reveal(el);
  };
  const middle = el => (Number(el.dataset.b) + Number(el.dataset.e)) / 2;
  const closest = (list, at) => list.reduce(
      (best, el) => Math.abs(middle(el) - at) < Math.abs(middle(best) - at) ? el : best, list[0]);
  const barKey = (el, key) => {
    const lane = lanes.findIndex(list => list.includes(el));
    const at = lanes[lane].indexOf(el);
    switch (key) {
      case 'ArrowRight': return lanes[lane][at + 1];
      case 'ArrowLeft': return lanes[lane][at - 1];
      case 'ArrowDown': return lanes[lane + 1] && closest(lanes[lane + 1], middle(el));
      case 'ArrowUp': return lanes[lane - 1] && closest(lanes[lane - 1], middle(el));
      case 'Home': return lanes[lane][0];
      case 'End': return lanes[lane][lanes[lane].length - 1];
    }
    return null;
  };
  const place = el => {
    const box = el.querySelector('rect');
    return [Number(box.getAttribute('x')), Number(box.getAttribute('y'))];
  };
  const directions = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]};
  const nodeKey = (el, key) => {
    const [dx, dy] = directions[key] || [0, 0];
    if (!dx && !dy) return null;
    const [x, y] = place(el);
    let best = null, least = Infinity;
    for (const other of nodes) {
      const [u, v] = place(other);
      const ahead = (u - x) * dx + (v - y) * dy, aside = Math.abs((u - x) * dy) +
          Math.abs((v - y) * dx);
      if (ahead > 1 && ahead + 2 * aside < least) {
        least = ahead + 2 * aside;
        best = other;
      }
    }
    return best;
  };
  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') return pick(-1);
    const el = event.target.closest('.bar,.node');
    if (!el) return;
    if (event.key === 'Enter' || event.key === ' ') {
      pick(Number(el.dataset.op), barOf(el));
    } else if (event.key === '+' || event.key === '-') {
      zoom(event.key === '+' ? 1.5 : 1 / 1.5);
      if (el.classList.contains('bar')) reveal(el);
    } else {
      const bar = el.classList.contains('bar');
      const next = bar ? barKey(el, event.key) : nodeKey(el, event.key);
      if (!next) return;
      go(bar ? bars : nodes, next);
    }
    event.preventDefault();
  });

  // --- zoom: positions are cycles times `scale`
  let scale = Number(svg.dataset.scale);
  const spans = all('#scroll .span'), ats = all('#scroll .at'), stretched = all('#scroll .stretch');
  const wide = all('#scroll .wide');
  const draw = () => {
    const width = Math.ceil(length * scale) + 12;
    svg.setAttribute('width', width);
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    for (const el of spans) {
      el.setAttribute('x', el.dataset.b * scale);
      el.setAttribute('width', (el.dataset.e - el.dataset.b) * scale);
    }
    for (const el of ats) {
      const x = el.dataset.b * scale;
      if (el.tagName === 'line') {
        el.setAttribute('x1', x);
        el.setAttribute('x2', x);
      } else {
        el.setAttribute('x', x + Number(el.dataset.dx));
        if (el.classList.contains('slot'))
          el.classList.toggle('hide', data.ii * scale < 300);
      }
    }
    for (const el of stretched) el.setAttribute('transform', `scale(${scale},1)`);
    for (const el of wide) el.setAttribute('x2', length * scale);
    for (const el of bars) {
      const width = Math.max(1, (el.dataset.e - el.dataset.b) * scale);
      const x = el.dataset.b * scale;
      el.querySelector('rect').setAttribute('x', x);
      el.querySelector('rect').setAttribute('width', width);
      const text = el.querySelector('text');
      if (!text) continue;
      const name = data.ops[el.dataset.op].name;
      const letters = Math.floor((width - 6) / 7.3);
      const along = width >= text.dataset.need;
      const across = !along && text.dataset.tall === '1' && width >= 11;
      const cut = !along && !across && letters >= 4 && /^[ -~]*$/.test(name);
      text.textContent = cut ? name.slice(0, letters - 1) + '…' : name;
      text.setAttribute('class', across ? 'small' : along || cut ? '' : 'hide');
      text.setAttribute('transform', across ?
          `translate(${x + width / 2 + 3},${text.dataset.base})rotate(-90)` :
          `translate(${x + 4},${text.dataset.y})`);
    }
  };
  const zoom = factor => {
    const least = scroll.clientWidth / length / 2, most = 40 * scroll.clientWidth / length;
    const middle = (scroll.scrollLeft + scroll.clientWidth / 2) / scale;
    scale = Math.min(Math.max(scale * factor, least), Math.max(most, 2));
    draw();
    scroll.scrollLeft = middle * scale - scroll.clientWidth / 2;
  };
  const reveal = el => {
    const b = el.dataset.b * scale, e = el.dataset.e * scale;
    if (b < scroll.scrollLeft) scroll.scrollLeft = b - 40;
    else if (e > scroll.scrollLeft + scroll.clientWidth)
      scroll.scrollLeft = Math.min(b - 40, e - scroll.clientWidth + 40);
  };
  const fit = (begin, end) => {
    const room = Math.max(200, scroll.clientWidth - 16);
    scale = room / Math.max(1, end - begin);
    draw();
    scroll.scrollLeft = begin * scale - 4;
  };
  const button = (id, action) => document.getElementById(id).addEventListener('click', action);
  button('steady', () => fit(steady[0], steady[1]));
  button('whole', () => fit(0, length));
  button('closer', () => zoom(1.5));
  button('further', () => zoom(1 / 1.5));
  scroll.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }, {passive: false});

  // --- light and dark
  button('theme', () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' :
        matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  });

  for (const el of all('.needs-script')) el.hidden = false;
  fit(steady[0], steady[1]);
  stop(bars, bars.find(el => Number(el.dataset.b) >= steady[0]) || bars[0]);
  stop(nodes, nodes[0]);
})();
