// Header fields as the core writes them: lines of `name: value`.

/**
 * Appends each line to the fields that are there. A Headers object that is filled one by one costs the platform less
 * than pairs or a record that it has to take apart.
 *
 * @param {Headers} headers
 * @param {string} lines
 */
export function appendFields(headers, lines) {
  for (let at = 0; at < lines.length; ) {
    const end = lines.indexOf('\n', at);
    const colon = lines.indexOf(': ', at);
    headers.append(lines.slice(at, colon), lines.slice(colon + 2, end));
    at = end + 1;
  }
}
