import type { Subject } from './subject.ts'

/** Every store that the contract suites run over, by name: those that need TCP run on Node, the others on workerd. */
export const STORES: Record<string, () => Subject> =
  navigator.userAgent === 'Cloudflare-Workers'
    ? (await import('./worker-stores.ts')).WORKER_STORES
    : (await import('./tcp-stores.ts')).TCP_STORES
