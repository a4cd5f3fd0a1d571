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
  const decoder = new TextDecoder();
  let text = '';
  let read = 0;
  for await (const chunk of request.body ?? []) {
    read += chunk.byteLength;
    if (read > longest) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
