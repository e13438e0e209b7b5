/**
 * What Stryker is given: a reporter that hands on each mutant when it has been tested, so that a run which is cut off
 * has said what it saw, and a checker that lets through a part of them only, for a sample.
 */
import type { Stryker } from '@stryker-mutator/core'

export type Mutant = Awaited<ReturnType<Stryker['runMutationTest']>>[number]

/** Variable of the environment of Stryker's processes: `2/5` is the second of every five mutants. */
export const SAMPLE = 'MUTATION_SAMPLE'

interface Report {
  onMutationTestingPlanReady(event: { readonly mutantPlans: readonly { readonly mutant: Mutant }[] }): void
  onMutantTested(mutant: Mutant): void
}

/** Set by the one who runs Stryker; its other processes load this module, too, and report nothing. */
let report: Report | undefined

/** Calls `onFile` when the last mutant of a file has been tested. */
export function reportByFile(onFile: (file: string, mutants: readonly Mutant[]) => void): void {
  const waiting = new Map<string, number>()
  const tested = new Map<string, Mutant[]>()
  report = {
    onMutationTestingPlanReady({ mutantPlans }) {
      for (const { mutant } of mutantPlans) waiting.set(mutant.fileName, (waiting.get(mutant.fileName) ?? 0) + 1)
    },
    onMutantTested(mutant) {
      const mutants = [...(tested.get(mutant.fileName) ?? []), mutant]
      tested.set(mutant.fileName, mutants)
      if (mutants.length === waiting.get(mutant.fileName)) onFile(mutant.fileName, mutants)
    },
  }
}

function checkMutants(mutants: readonly Mutant[]): Record<string, { readonly status: string }> {
  const [part = 1, parts = 1] = (process.env[SAMPLE] ?? '').split('/').map(Number)
  return Object.fromEntries(
    mutants.map(({ id }) => [
      id,
      Number(id) % parts === part - 1 ? { status: 'passed' } : { status: 'compileError', reason: 'not in the sample' },
    ]),
  )
}

export const strykerPlugins = [
  { kind: 'Reporter', name: 'by-file', factory: () => report ?? {} },
  {
    kind: 'Checker',
    name: 'sample',
    factory: () => ({
      init: async () => {},
      check: async (mutants: readonly Mutant[]) => checkMutants(mutants),
      group: async (mutants: readonly Mutant[]) => [mutants.map(({ id }) => id)],
    }),
  },
]
