import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { ask, type Problem } from '../api.ts'

export interface Action {
  readonly isBusy: boolean
  /** The last result, read out as well. */
  readonly element: VNode
  /** @param path below `/_sluice/admin` @returns the problem if it was refused */
  run<T>(path: string, body: unknown, describe: (answer: T) => string): Promise<T | Problem>
}

export function useAction(): Action {
  const [{ result, isWrong, isBusy }, setOutcome] = useState({ result: '', isWrong: false, isBusy: false })
  return {
    isBusy,
    element: (
      <p role="status" class={isWrong ? 'wrong' : ''}>
        {result}
      </p>
    ),
    async run<T>(path: string, body: unknown, describe: (answer: T) => string) {
      setOutcome({ result: '', isWrong: false, isBusy: true })
      try {
        const answer = await ask<T>(`/admin${path}`, body)
        setOutcome({ result: describe(answer), isWrong: false, isBusy: false })
        return answer
      } catch (error) {
        const problem = error as Problem
        setOutcome({ result: problem.plain, isWrong: true, isBusy: false })
        return problem
      }
    },
  }
}
