// Data points for Workers Analytics Engine, from the core's text: an index, texts and numbers between tabs.

/** How many texts stand between the index and the numbers; `gateway::analytics::BLOBS`. */
const BLOBS = 8;

/**
 * @param {unknown} binding
 * @returns {((points: string) => void) | undefined} what writes points, a line each; nothing without the binding
 */
export function pointsTo(binding) {
  const dataset = /** @type {AnalyticsEngineDataset | undefined} */ (binding);
  if (typeof dataset?.writeDataPoint !== 'function') return undefined;
  return (points) => {
    if (points === '') return;
    for (const point of points.split('\n')) {
      const [index, ...fields] = point.split('\t');
      try {
        dataset.writeDataPoint({
          indexes: [index],
          blobs: fields.slice(0, BLOBS),
          doubles: fields.slice(BLOBS).map(Number),
        });
      } catch {
        // A decision stands, whether or not it can be written down.
      }
    }
  };
}
