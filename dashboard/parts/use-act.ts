import { useState } from 'preact/hooks'
import { ask, type Problem } from '../api.ts'

export interface Act {
  /** What became of the last one, for the operator. */
  readonly said: string
  readonly isWrong: boolean
  readonly isBusy: boolean
  /** @param path below `/_sluice/admin` @returns undefined if it was refused */
  run<T>(path: string, body: unknown, tell: (answer: T) => string): Promise<T | undefined>
}

/** Does something, and says what became of it. */
export function useAct(): Act {
  const [outcome, setOutcome] = useState({ said: '', isWrong: false, isBusy: false })
  return {
    ...outcome,
    async run<T>(path: string, body: unknown, tell: (answer: T) => string) {
      setOutcome({ said: '', isWrong: false, isBusy: true })
      try {
        const answer = await ask<T>(`/admin${path}`, body)
        setOutcome({ said: tell(answer), isWrong: false, isBusy: false })
        return answer
      } catch (error) {
        setOutcome({ said: (error as Problem).plain, isWrong: true, isBusy: false })
        return undefined
      }
    },
  }
}
