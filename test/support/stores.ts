import { inject } from 'vitest'

/**
 * Everything that the contract suites run over, by name: what needs TCP runs on Node, the rest on workerd, and where there is a
 * cluster, the stores of limits alone run over that. Two document
 * stores of one key, or two statistics stores of one prefix, share what they store.
 */
export const { STORES, COUNTERS, DOCUMENTS } =
  navigator.userAgent === 'Cloudflare-Workers'
    ? await import('./worker-stores.ts')
    : inject('clusterPorts')
      ? { ...(await import('../system/cluster/cluster-stores.ts')), COUNTERS: {}, DOCUMENTS: {} }
      : await import('./tcp-stores.ts')
