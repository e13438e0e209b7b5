/** Loads what reads health with the first question for it: no request needs it. */
import { createLoader } from '../../core/runtime/create-loader.ts'
import type { createHealthReader, Health } from './health.ts'

export function loadHealth(...parts: Parameters<typeof createHealthReader>): () => Promise<Health> {
  const load = createLoader(async () => (await import('./health.ts')).createHealthReader(...parts))
  return async () => (await load())()
}
