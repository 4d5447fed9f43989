"use strict";
// without a script all draws are seen at once; with it, one, which the slider chooses
const slider = document.getElementById("draw");
if (slider) {
  const draws = document.querySelectorAll(".draw");
  const show = () => {
    draws.forEach((each, index) => { each.hidden = index !== slider.valueAsNumber; });
    const caption = draws[slider.valueAsNumber].querySelector("figcaption").textContent.trim();
    slider.setAttribute("aria-valuetext", caption);
  };
  slider.addEventListener("input", show);
  slider.closest("[hidden]").hidden = false;
  show();
}
