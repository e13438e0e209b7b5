import { memoryStore } from 'sluice'
import { limit } from 'sluice/fetch'

// It survives a reload, as guides of Next.js say of clients.
globalThis.store ??= memoryStore()
export const GET = limit(() => new Response('hello'), { limits: '3/1m', store: globalThis.store, log() {} })
