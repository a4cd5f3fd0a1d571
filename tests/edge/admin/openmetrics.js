// OpenMetrics 1.0 text taken apart by its grammar, independently of what wrote it. Throws at the first line that is not.
import assert from 'node:assert/strict';

/**
 * @typedef {object} Family
 * @property {string} type
 * @property {string} help
 * @property {string} unit
 * @property {{ name: string, labels: Record<string, string>, value: number }[]} samples
 */

/** What the samples of a type may be called behind the family's name. */
const SUFFIXES = /** @type {Record<string, string[]>} */ ({
  counter: ['_total'],
  gauge: [''],
  info: ['_info'],
  stateset: [''],
  histogram: ['_bucket', '_count', '_sum'],
});

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?\d+(?:\.\d+)?|\+Inf)$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,(?=[a-zA-Z_])|$)/y;

/** @param {string} text @returns {Map<string, Family>} */
export function parse(text) {
  assert.ok(text.endsWith('\n# EOF\n'), 'ends with # EOF');
  /** @type {Map<string, Family>} */
  const families = new Map();
  /** @type {[string, Family] | undefined} */
  let open;
  const seen = new Set();
  for (const line of text.slice(0, -'# EOF\n'.length - 1).split('\n')) {
    const [, keyword, name, rest] = /^# (TYPE|UNIT|HELP) (\S+) (.+)$/.exec(line) ?? [];
    if (keyword === 'TYPE') {
      assert.ok(!families.has(name), `${name} twice`);
      assert.ok(SUFFIXES[rest], `${line}: no type`);
      open = [name, { type: rest, help: '', unit: '', samples: [] }];
      families.set(name, open[1]);
      continue;
    }
    assert.ok(open, `${line}: before any TYPE`);
    if (keyword) {
      assert.equal(name, open[0], `${line}: of another family`);
      assert.equal(open[1].samples.length, 0, `${line}: behind its samples`);
      if (keyword === 'UNIT') assert.ok(name.endsWith(`_${rest}`), `${line}: not the end of the name`);
      open[1][keyword === 'UNIT' ? 'unit' : 'help'] = rest;
      continue;
    }
    const sample = SAMPLE.exec(line);
    assert.ok(sample, `${line}: no sample`);
    const [family, { type, samples }] = open;
    assert.ok(
      SUFFIXES[type].some((suffix) => sample[1] === family + suffix),
      `${line}: not of ${family}`,
    );
    const labels = labelsOf(sample[2] ?? '');
    const series = JSON.stringify([sample[1], Object.entries(labels).sort()]);
    assert.ok(!seen.has(series), `${line}: twice`);
    seen.add(series);
    samples.push({ name: sample[1], labels, value: Number(sample[3].replace('+Inf', 'Infinity')) });
  }
  for (const [name, { type, samples }] of families) if (type === 'histogram') histogram(name, samples);
  return families;
}

/** @param {string} text */
function labelsOf(text) {
  /** @type {Record<string, string>} */
  const labels = {};
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < text.length) {
    const at = LABEL.lastIndex;
    const found = LABEL.exec(text);
    assert.ok(found, `${text.slice(at)}: no label`);
    assert.ok(!(found[1] in labels), `${found[1]} twice`);
    labels[found[1]] = found[2].replaceAll(/\\(.)/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped));
  }
  return labels;
}

/** @param {string} name @param {Family['samples']} samples */
function histogram(name, samples) {
  const buckets = samples.filter((sample) => sample.name === `${name}_bucket`);
  const bounds = buckets.map(({ labels }) => {
    assert.match(labels.le, /^(\d+\.\d+|\+Inf)$/, `${name}: ${labels.le} is not canonical`);
    return Number(labels.le.replace('+Inf', 'Infinity'));
  });
  assert.equal(bounds.at(-1), Number.POSITIVE_INFINITY);
  for (let at = 1; at < buckets.length; at += 1) {
    assert.ok(bounds[at] > bounds[at - 1] && buckets[at].value >= buckets[at - 1].value, `${name}: not cumulative`);
  }
  assert.equal(samples.find((sample) => sample.name === `${name}_count`)?.value, buckets.at(-1)?.value);
}

/**
 * The samples of a family whose value is not 0, by their labels in the order sent.
 *
 * @param {Map<string, Family>} families
 * @param {string} name
 */
export function counted(families, name) {
  const samples = families.get(name)?.samples ?? [];
  return Object.fromEntries(
    samples.filter(({ value }) => value !== 0).map(({ labels, value }) => [Object.values(labels).join(' '), value]),
  );
}
