/** V8's profiler, for a Worker that runs. */
import { withInspector } from '../../test/support/inspector.ts'

interface Node {
  readonly id: number
  readonly callFrame: { readonly functionName: string }
}

interface Profile {
  readonly nodes: readonly Node[]
  readonly samples: readonly number[]
  /** Microseconds before each sample. */
  readonly timeDeltas: readonly number[]
}

const SAMPLE_EVERY_US = 200

/**
 * Samples a Worker with V8's profiler. Functions of the runtime (`fetch`, `Headers`, …) are named like those in
 * JavaScript; what has neither name is `(program)`.
 * @param port of workerd's inspector
 * @returns microseconds in each function itself, the most first
 */
export function profile(port: number, durationMs: number): Promise<ReadonlyMap<string, number>> {
  return withInspector(port, async (call) => {
    await call('Profiler.enable')
    await call('Profiler.setSamplingInterval', { interval: SAMPLE_EVERY_US })
    await call('Profiler.start')
    await new Promise((resolve) => setTimeout(resolve, durationMs))
    const { profile } = await call<{ profile: Profile }>('Profiler.stop')
    return sumSelfTimes(profile)
  })
}

function sumSelfTimes({ nodes, samples, timeDeltas }: Profile): ReadonlyMap<string, number> {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, callFrame.functionName || '(anonymous)']))
  const times = new Map<string, number>()
  for (const [index, id] of samples.entries()) {
    const name = names.get(id) ?? '(program)'
    times.set(name, (times.get(name) ?? 0) + (timeDeltas[index] ?? 0))
  }
  return new Map([...times].toSorted((a, b) => b[1] - a[1]))
}
