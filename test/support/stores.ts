/**
 * Everything that the contract suites run over, by name: what needs TCP runs on Node, the rest on workerd. Two document
 * stores of one key, or two statistics stores of one prefix, share what they store.
 */
export const { STORES, COUNTERS, DOCUMENTS } =
  navigator.userAgent === 'Cloudflare-Workers' ? await import('./worker-stores.ts') : await import('./tcp-stores.ts')
