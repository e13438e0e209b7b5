import type { Act } from './use-act.ts'

/** What became of something, read out as well. */
export function Said({ act: { said, isWrong } }: { act: Pick<Act, 'said' | 'isWrong'> }) {
  return (
    <p role="status" class={isWrong ? 'wrong' : ''}>
      {said}
    </p>
  )
}
