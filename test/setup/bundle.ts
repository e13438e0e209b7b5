import type { TestProject } from 'vitest/node'
import { type Bundle, buildBundle, removeBundle } from '../support/build-bundle.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    bundle: Bundle
  }
}

export default async function bundle({ provide }: TestProject): Promise<() => Promise<void>> {
  const built = await buildBundle()
  provide('bundle', built)
  return () => removeBundle(built)
}
