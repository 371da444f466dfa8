"use strict";
(function () {
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) =>
    [...root.querySelectorAll(selector)];
  const steps = all(".step");
  const slider = find("#slider");
  const search = find("#search");
  const fits = find("#fits");
  let current = steps.length - 1;

  function matches(element, words) {
    return words.every((word) => element.dataset.search.includes(word));
  }

  // Show the hosts and steps that the reader searches, and count the hosts.
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const row = find("#row").value;
    const least = Number(find("#least").value);
    const hosts = all(".host", steps[current]);
    // A search may name a host or a step: the other list stays complete.
    const items = all(".steps li");
    const found = items.filter((item) => matches(item, words));
    const isHost = hosts.some((host) => matches(host, words));
    const wanted = found.length && !isHost ? [] : words;
    const shown = hosts.filter((host) => {
      const isShown = matches(host, wanted) &&
        (!least || Number(host.dataset[row] || 0) >= least) &&
        (!fits || !fits.checked || Number(host.dataset.fits) > 0);
      host.hidden = !isShown;
      return isShown;
    });
    for (const server of all(".host:not([hidden]) tr[data-search]",
                             steps[current])) {
      server.classList.toggle(
        "hit", words.length > 0 && matches(server, words));
    }
    if (words.length && shown.length === 1) {
      shown[0].open = true;
    }
    items.forEach((item, index) => {
      item.hidden = index !== current && !found.includes(item) &&
        (found.length > 0 || !isHost);
    });
    find("#shown").textContent = shown.length
      ? `${shown.length} of ${hosts.length} hosts shown` : "No host matches.";
  }

  // Show a step; the hosts stay open or closed as in the step before.
  function showStep(number) {
    const isOpen = new Map(all(".host", steps[current]).map(
      (host) => [host.dataset.host, host.open]));
    current = Math.min(Math.max(number, 0), steps.length - 1);
    steps.forEach((step, index) => { step.hidden = index !== current; });
    for (const host of all(".host", steps[current])) {
      host.open = isOpen.get(host.dataset.host) ?? host.open;
    }
    if (slider) {
      slider.value = current;
      slider.setAttribute("aria-valuetext", steps[current].dataset.label);
      find("#now").textContent = steps[current].dataset.label;
      find("#previous").disabled = current === 0;
      find("#next").disabled = current === steps.length - 1;
      for (const link of all("[data-step]")) {
        if (Number(link.dataset.step) === current) {
          link.setAttribute("aria-current", "step");
        } else {
          link.removeAttribute("aria-current");
        }
      }
    }
    filter();
  }

  function setOpen(isOpen) {
    for (const host of all(".host:not([hidden])", steps[current])) {
      host.open = isOpen;
    }
  }

  for (const element of all(".controls, .slide")) {
    element.hidden = false;
  }
  for (const type of ["input", "change"]) {
    find(".controls").addEventListener(type, filter);
  }
  find(".controls").addEventListener(
    "submit", (event) => event.preventDefault());
  find("#expand").addEventListener("click", () => setOpen(true));
  find("#collapse").addEventListener("click", () => setOpen(false));
  for (const button of all("[data-find]")) {
    button.addEventListener("click", () => {
      search.value = button.dataset.find;
      filter();
      find(".hosts", steps[current]).scrollIntoView();
      find(".host:not([hidden]) > summary", steps[current])?.focus(
        {preventScroll: true});
    });
  }
  if (slider) {
    slider.addEventListener("input", () => showStep(Number(slider.value)));
    find("#previous").addEventListener("click", () => showStep(current - 1));
    find("#next").addEventListener("click", () => showStep(current + 1));
    for (const link of all("[data-step]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        showStep(Number(link.dataset.step));
      });
    }
  }
  showStep(current);
}());
