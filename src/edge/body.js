// Reading bodies of bounded length.

/**
 * @param {Request} request
 * @param {number} longest in bytes
 * @returns {Promise<string | undefined>} the body, unless it is longer
 */
export async function boundedText(request, longest) {
  const length = request.headers.get('content-length');
  // Reading a body piece by piece costs several times what `text()` does, so only one of unknown length is.
  if (length !== null) return Number(length) > longest ? undefined : request.text();
  const bytes = await boundedBytes(request, longest);
  return bytes && new TextDecoder().decode(bytes);
}

/**
 * A body piece by piece: no more of it is read than is wanted.
 *
 * @param {Request} request
 * @param {number} longest in bytes
 * @returns {Promise<Uint8Array | undefined>} the body, unless it is longer
 */
export async function boundedBytes({ body }, longest) {
  const pieces = [];
  let read = 0;
  for await (const piece of body ?? []) {
    read += piece.byteLength;
    if (read > longest) return undefined;
    pieces.push(piece);
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}
