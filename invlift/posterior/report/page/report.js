"use strict";
(() => {
  const holder = document.getElementById("data");
  const data = holder ? JSON.parse(holder.textContent) : null;
  const NO_VALUE = 255;
  const number = (value) => Number(value.toPrecision(4)).toString().replace("-", "\u2212");

  function bytes(text) {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }

  const views = (data ? data.views : []).map((view) => ({
    ...view,
    points: new Float32Array(bytes(view.points).buffer),
    triangles: new (view.isLong ? Uint32Array : Uint16Array)(bytes(view.triangles).buffer),
  }));
  const scales = (data ? data.scales : []).map((scale) => {
    const rgb = bytes(scale.colours);
    const colours = new Uint32Array(256);
    for (let i = 0; i < rgb.length / 3; i++) {
      colours[i] = (255 << 24) | (rgb[3 * i + 2] << 16) | (rgb[3 * i + 1] << 8) | rgb[3 * i];
    }
    return { ...scale, colours };
  });
  const fields = data ? data.fields : {};
  for (const field of Object.values(fields)) field.levels = field.levels.map(bytes);
  const draws = data && data.draws;
  if (draws) draws.levels = draws.levels.map((draw) => draw.map(bytes));
  let chosen = 0;

  const drawn = () => ({ ...draws, levels: draws.levels[chosen] });
  const fieldOf = (canvas) => ("draw" in canvas.dataset ? drawn() : fields[canvas.dataset.field]);

  /* Size of a canvas in its own pixels: at least two for each of the page, for smooth edges. */
  function fit(canvas) {
    const ratio = Math.max(2, window.devicePixelRatio || 1);
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    return ratio;
  }

  /* Fill triangles with interpolated levels; `place` gives x, y and depth of a point. */
  function paint(canvas, view, levels, isNodal, colours, place, shade) {
    const { width, height } = canvas;
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const depth = shade ? new Float32Array(width * height).fill(-Infinity) : null;
    const at = new Float32Array((view.points.length / view.dim) * 3);
    for (let i = 0; i < at.length / 3; i++) at.set(place(i), 3 * i);
    const { triangles } = view;
    for (let t = 0; t < triangles.length / 3; t++) {
      const a = triangles[3 * t], b = triangles[3 * t + 1], c = triangles[3 * t + 2];
      const la = levels[isNodal ? a : t], lb = levels[isNodal ? b : t], lc = levels[isNodal ? c : t];
      if (la === NO_VALUE || lb === NO_VALUE || lc === NO_VALUE) continue;
      const ax = at[3 * a], ay = at[3 * a + 1], bx = at[3 * b], by = at[3 * b + 1];
      const cx = at[3 * c], cy = at[3 * c + 1];
      const area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
      if (area === 0) continue;
      const light = shade ? shade(t) : 1;
      const top = Math.max(0, Math.ceil(Math.min(ay, by, cy) - 0.5));
      const bottom = Math.min(height - 1, Math.floor(Math.max(ay, by, cy) + 0.5));
      const left = Math.max(0, Math.ceil(Math.min(ax, bx, cx) - 0.5));
      const right = Math.min(width - 1, Math.floor(Math.max(ax, bx, cx) + 0.5));
      for (let y = top; y <= bottom; y++) {
        for (let x = left; x <= right; x++) {
          const px = x + 0.5, py = y + 0.5;
          const v = ((px - ax) * (cy - ay) - (cx - ax) * (py - ay)) / area;
          const w = ((bx - ax) * (py - ay) - (px - ax) * (by - ay)) / area;
          const u = 1 - v - w;
          if (u < -1e-4 || v < -1e-4 || w < -1e-4) continue;
          const index = y * width + x;
          if (depth) {
            const z = u * at[3 * a + 2] + v * at[3 * b + 2] + w * at[3 * c + 2];
            if (z <= depth[index]) continue;
            depth[index] = z;
          }
          const colour = colours[(u * la + v * lb + w * lc + 0.5) | 0];
          pixels[index] = light === 1 ? colour : (255 << 24)
            | ((((colour >> 16) & 255) * light) << 16)
            | ((((colour >> 8) & 255) * light) << 8)
            | ((colour & 255) * light);
        }
      }
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  const placeFlat = (canvas, view) => (i) => [
    (view.points[2 * i] / view.size[0]) * canvas.width,
    (1 - view.points[2 * i + 1] / view.size[1]) * canvas.height,
    0,
  ];

  function paintFlat(canvas) {
    const view = views[canvas.dataset.view], field = fieldOf(canvas);
    fit(canvas);
    paint(canvas, view, field.levels[canvas.dataset.view], field.isNodal,
      scales[field.scale].colours, placeFlat(canvas, view), null);
  }

  function paintMesh(canvas) {
    const view = views[canvas.dataset.view];
    const ratio = fit(canvas), place = placeFlat(canvas, view);
    const context = canvas.getContext("2d");
    context.strokeStyle = getComputedStyle(canvas).color;
    context.globalAlpha = view.triangles.length > 30000 ? 0.2 : 0.4;
    context.lineWidth = 0.5 * ratio;
    context.beginPath();
    for (let t = 0; t < view.triangles.length; t += 3) {
      for (let k = 0; k < 3; k++) {
        const a = view.triangles[t + k], b = view.triangles[t + ((k + 1) % 3)];
        if (a < b || view.triangles.length > 60000) {
          context.moveTo(...place(a));
          context.lineTo(...place(b));
        }
      }
    }
    context.stroke();
  }

  /* -- reading a value off a map ---------------------------------------------------------------- */

  function levelAt(view, levels, isNodal, x, y) {
    const { points, triangles } = view;
    for (let t = 0; t < triangles.length / 3; t++) {
      const a = triangles[3 * t], b = triangles[3 * t + 1], c = triangles[3 * t + 2];
      const ax = points[2 * a], ay = points[2 * a + 1];
      const bx = points[2 * b] - ax, by = points[2 * b + 1] - ay;
      const cx = points[2 * c] - ax, cy = points[2 * c + 1] - ay;
      const area = bx * cy - cx * by;
      const v = ((x - ax) * cy - cx * (y - ay)) / area, w = (bx * (y - ay) - (x - ax) * by) / area;
      if (v >= 0 && w >= 0 && v + w <= 1) {
        const corner = isNodal ? [levels[a], levels[b], levels[c]] : Array(3).fill(levels[t]);
        if (corner.includes(NO_VALUE)) return null;
        return (1 - v - w) * corner[0] + v * corner[1] + w * corner[2];
      }
    }
    return null;
  }

  function valueOf(scale, level) {
    const share = level / 254;
    if (scale.isLog) return scale.low * (scale.high / scale.low) ** share;
    return scale.low + share * (scale.high - scale.low);
  }

  function read(canvas, event) {
    const output = canvas.closest("figure").querySelector("output.reading");
    const view = views[canvas.dataset.view], field = fieldOf(canvas), scale = scales[field.scale];
    const box = canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * view.size[0];
    const y = (1 - (event.clientY - box.top) / box.height) * view.size[1];
    const level = levelAt(view, field.levels[canvas.dataset.view], field.isNodal, x, y);
    if (level === null) {
      output.textContent = "";
      return;
    }
    const value = valueOf(scale, level);
    const text = scale.isShare ? `${(100 * value).toFixed(0)} %` : Number(value.toPrecision(3));
    const sign = level <= 0 ? "\u2264 " : level >= 254 ? "\u2265 " : "";
    output.textContent = `${view.axes[0]} = ${number(view.low[0] + x)}, `
      + `${view.axes[1]} = ${number(view.low[1] + y)}: ${sign}${text}`;
  }

  const flat = [...document.querySelectorAll("canvas[data-field], canvas[data-draw]")];
  for (const canvas of flat) {
    canvas.addEventListener("pointermove", (event) => read(canvas, event));
    canvas.addEventListener("pointerdown", (event) => read(canvas, event));
    canvas.addEventListener("pointerleave", () => {
      canvas.closest("figure").querySelector("output.reading").textContent = "";
    });
  }

  /* -- the surface of a body in space ----------------------------------------------------------- */

  const solid = document.querySelector("canvas[data-surface]");
  const select = document.querySelector("[data-surface-field]");
  let turn = -0.6, tilt = 0.45;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function groupColours() {
    const colours = new Uint32Array(256).fill(0xff888888);
    for (let i = 0; i < 255; i++) {
      const hex = parseInt(css(`--c${i % 6}`).slice(1), 16);
      colours[i] = (255 << 24) | ((hex & 255) << 16) | (hex & 0xff00) | (hex >> 16);
    }
    return colours;
  }

  function paintSolid() {
    const index = views.length - 1, view = views[index], ratio = fit(solid);
    const isGroups = select.value === "groups";
    const field = isGroups ? null : select.value === "draw" ? drawn() : fields[select.value];
    let levels = isGroups ? bytes(data.groups) : field.levels[index];
    if (isGroups) levels = levels.map((level) => (level === NO_VALUE ? 254 : level));
    const colours = isGroups ? groupColours() : scales[field.scale].colours;
    if (isGroups) colours[254] = 0xff888888;
    const centre = view.size.map((size) => size / 2);
    const reach = 0.5 * Math.hypot(...view.size);
    const zoom = (0.5 * Math.min(solid.width, solid.height)) / reach;
    const [ct, st, ci, si] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
    const turned = (x, y, z) => {
      const right = ct * x - st * y, away = st * x + ct * y;
      return [
        solid.width / 2 + zoom * right,
        solid.height / 2 - zoom * (ci * z + si * away),
        si * z - ci * away,
      ];
    };
    const point = (i) => [0, 1, 2].map((k) => view.points[3 * i + k] - centre[k]);
    const place = (i) => turned(...point(i));
    const shade = (t) => {
      const [a, b, c] = [0, 1, 2].map((k) => point(view.triangles[3 * t + k]));
      const u = b.map((x, k) => x - a[k]), v = c.map((x, k) => x - a[k]);
      const normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
      const towards = -ci * (st * normal[0] + ct * normal[1]) + si * normal[2];
      const least = isGroups ? 0.7 : 0.85;
      return least + (1 - least) * Math.abs(towards / (Math.hypot(...normal) || 1));
    };
    paint(solid, view, levels, isGroups ? false : field.isNodal, colours, place, shade);
    const context = solid.getContext("2d");
    const origin = view.low;
    for (const sensor of data.sensors) {
      const [x, y] = turned(...sensor.map((value, k) => value - origin[k] - centre[k]));
      context.beginPath();
      context.arc(x, y, 3.6 * ratio, 0, 2 * Math.PI);
      context.fillStyle = "#ffffff";
      context.strokeStyle = "#1b1e24";
      context.lineWidth = 1.2 * ratio;
      context.fill();
      context.stroke();
    }
    paintAxes(context, turned, zoom, ratio);
    showBar(isGroups ? null : scales[field.scale]);
  }

  /* The directions of x, y and z, in the lower left corner. */
  function paintAxes(context, turned, zoom, ratio) {
    const [ox, oy] = turned(0, 0, 0), corner = [34 * ratio, solid.height - 34 * ratio];
    context.strokeStyle = context.fillStyle = getComputedStyle(solid).color;
    context.lineWidth = 1.2 * ratio;
    context.font = `italic ${12 * ratio}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const unit = (24 * ratio) / zoom;
    ["x", "y", "z"].forEach((name, k) => {
      const end = turned(...[0, 1, 2].map((j) => (j === k ? 1 : 0)));
      const [dx, dy] = [(end[0] - ox) * unit, (end[1] - oy) * unit];
      context.beginPath();
      context.moveTo(...corner);
      context.lineTo(corner[0] + dx, corner[1] + dy);
      context.stroke();
      context.fillText(name, corner[0] + 1.35 * dx, corner[1] + 1.35 * dy);
    });
  }

  function showBar(scale) {
    const bar = document.querySelector("[data-surface-bar]");
    bar.hidden = !scale;
    if (!scale) return;
    bar.querySelector(".bar-label").textContent = scale.label;
    bar.querySelector(".bar-colours").style.background = scale.gradient;
    bar.querySelector(".bar-ticks").replaceChildren(...scale.ticks.map(([place, text]) => {
      const span = document.createElement("span");
      span.style.left = `${100 * place}%`;
      span.textContent = text;
      return span;
    }));
  }

  if (solid) {
    let from = null;
    const turnBy = (across, down) => {
      turn -= across;
      tilt = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, tilt + down));
      requestAnimationFrame(paintSolid);
    };
    solid.addEventListener("pointerdown", (event) => {
      from = [event.clientX, event.clientY];
      solid.setPointerCapture(event.pointerId);
    });
    solid.addEventListener("pointermove", (event) => {
      if (!from) return;
      turnBy((from[0] - event.clientX) / 120, (event.clientY - from[1]) / 120);
      from = [event.clientX, event.clientY];
    });
    for (const name of ["pointerup", "pointercancel"]) {
      solid.addEventListener(name, () => { from = null; });
    }
    solid.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [0.15, 0], ArrowRight: [-0.15, 0], ArrowUp: [0, -0.15], ArrowDown: [0, 0.15] };
      if (!(event.key in by)) return;
      event.preventDefault();
      turnBy(...by[event.key]);
    });
    select.addEventListener("change", paintSolid);
  }

  /* -- the slider of draws ---------------------------------------------------------------------- */

  const slider = document.getElementById("draw");
  if (slider) {
    const label = document.getElementById("draw-label"), play = document.querySelector("[data-play]");
    let timer = null;
    const show = () => {
      chosen = Number(slider.value);
      label.textContent = draws.labels[chosen];
      slider.setAttribute("aria-valuetext", draws.labels[chosen]);
      document.querySelectorAll("canvas[data-draw]").forEach(paintFlat);
      if (solid && select.value === "draw") paintSolid();
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
      play.setAttribute("aria-pressed", "false");
    };
    slider.addEventListener("input", () => { stop(); show(); });
    play.addEventListener("click", () => {
      if (timer !== null) return stop();
      play.textContent = "Stop";
      play.setAttribute("aria-pressed", "true");
      timer = setInterval(() => {
        slider.value = (Number(slider.value) + 1) % (Number(slider.max) + 1);
        show();
      }, 450);
    });
    slider.value = 0;
    show();
  }

  /* -- sensors ---------------------------------------------------------------------------------- */

  const reading = document.getElementById("residual-reading");
  const marks = [...document.querySelectorAll(".residual")];
  for (const mark of marks) {
    for (const name of ["pointerenter", "focus", "click"]) {
      mark.addEventListener(name, () => {
        reading.textContent = mark.dataset.words;
        for (const other of marks) {
          other.classList.toggle("chosen", other.dataset.words === mark.dataset.words);
        }
      });
    }
  }

  /* -- at the start, and whenever size or colours change ---------------------------------------- */

  const mesh = document.querySelectorAll("canvas[data-mesh]");
  function paintAll() {
    flat.forEach(paintFlat);
    mesh.forEach(paintMesh);
    if (solid) paintSolid();
  }
  let width = 0;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    paintAll();
  }).observe(document.body);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
  paintAll();
})();
