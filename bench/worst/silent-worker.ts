/** Answers at once: what a request costs the runtime, whatever its Worker makes of it. */
export default {
  fetch: () => new Response(null, { status: 204 }),
}
