import type { Action } from './use-action.ts'

/** The result of an action, read out as well. */
export function Result({ action: { result, isWrong } }: { action: Pick<Action, 'result' | 'isWrong'> }) {
  return (
    <p role="status" class={isWrong ? 'wrong' : ''}>
      {result}
    </p>
  )
}
