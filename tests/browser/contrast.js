// Every text of the page whose contrast with what lies behind it is under 4.5:1 (WCAG 2.1, success criterion 1.4.3), as
// "section TAG.class: ratio, text". A hatched background counts by its stripe and by what is between.
() => {
  const parse = (text) => {
    const found = /rgba?\(([^)]+)\)/.exec(text);
    const [r, g, b, alpha = 1] = found ? found[1].split(/[ ,/]+/).filter(Boolean).map(Number) : [0, 0, 0, 0];
    return [r, g, b, alpha];
  };
  const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ratio = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const ancestors = (element) => (element ? [...ancestors(element.parentElement), element] : []);
  const behind = (element) => {
    let colours = [[255, 255, 255, 1]];
    for (const each of ancestors(element)) {
      const style = getComputedStyle(each);
      const own = parse(style.backgroundColor);
      if (own[3]) colours = [...new Set(colours.map((colour) => String(over(own, colour))))].map((c) => c.split(",").map(Number));
      const stripes = style.backgroundImage.startsWith("repeating") ? style.backgroundImage.match(/rgba?\([^)]+\)/g) : [];
      const stripe = stripes.map(parse).find((colour) => colour[3]);
      if (stripe) colours = [...colours, ...colours.map((colour) => over(stripe, colour))];
    }
    return colours;
  };
  const low = new Set();
  const check = (element, colour, text) => {
    const least = Math.min(...behind(element).map((back) => ratio(over(colour, back), back)));
    const where = element.closest("section")?.id ?? "top";
    if (least < 4.5) low.add(`${where} ${element.tagName}.${element.className}: ${least.toFixed(2)}, ${text}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    if (!text || element.closest("script, style") || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    check(element, parse(element.closest("svg") ? style.fill : style.color), text.slice(0, 30));
  }
  for (const input of document.querySelectorAll("input")) {
    check(input, parse(getComputedStyle(input, "::placeholder").color), input.placeholder);
  }
  return [...low];
}
