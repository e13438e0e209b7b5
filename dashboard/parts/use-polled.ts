import { useEffect, useState } from 'preact/hooks'
import { ask, type Problem } from '../api.ts'

export interface Polled<T> {
  readonly value: T | undefined
  readonly problem: Problem | undefined
}

/**
 * Asks again and again while the page is seen, and at once when what is asked, or `done`, has changed.
 * @param path below `/_sluice` @param body sent as JSON; left out, the method is GET
 */
export function usePolled<T>(path: string, everyMs: number, body?: object, done = 0): Polled<T> {
  const text = JSON.stringify(body)
  const [polled, setPolled] = useState<Polled<T>>({ value: undefined, problem: undefined })
  useEffect(() => {
    let isOver = false
    const poll = async () => {
      if (document.visibilityState === 'hidden') return
      try {
        const value = await ask<T>(path, body)
        if (!isOver) setPolled({ value, problem: undefined })
      } catch (error) {
        // What was known last is better than nothing.
        if (!isOver) setPolled(({ value }) => ({ value, problem: error as Problem }))
      }
    }
    poll()
    const timer = setInterval(poll, everyMs)
    document.addEventListener('visibilitychange', poll)
    return () => {
      isOver = true
      clearInterval(timer)
      document.removeEventListener('visibilitychange', poll)
    }
  }, [path, everyMs, text, done])
  return polled
}
