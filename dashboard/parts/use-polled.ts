import { useEffect, useState } from 'preact/hooks'
import { ask, type Problem } from '../api.ts'

interface Answered<T> extends Polled<T> {
  /** Path and body of the request that was answered. */
  readonly question: string
}

export interface Polled<T> {
  readonly value: T | undefined
  readonly problem: Problem | undefined
}

/**
 * Asks again and again while the page is seen, and at once when what is asked, or `done`, has changed.
 * @param path below `/_sluice` @param body sent as JSON; left out, the method is GET
 */
export function usePolled<T>(path: string, everyMs: number, body?: object, done = 0): Polled<T> {
  const question = `${path} ${JSON.stringify(body)}`
  const unanswered = { question, value: undefined, problem: undefined }
  const [answered, setAnswered] = useState<Answered<T>>(unanswered)
  useEffect(() => {
    let isOver = false
    const poll = async () => {
      if (document.visibilityState === 'hidden') return
      try {
        const value = await ask<T>(path, body)
        if (!isOver) setAnswered({ question, value, problem: undefined })
      } catch (error) {
        // What was known last is better than nothing.
        if (!isOver)
          setAnswered((last) => ({ ...(last.question === question ? last : unanswered), problem: error as Problem }))
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
  }, [everyMs, question, done])
  return answered.question === question ? answered : unanswered
}
