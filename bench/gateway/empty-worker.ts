/** Does nothing: what a cold start takes more is the gateway's. */
export default { fetch: () => new Response() }
