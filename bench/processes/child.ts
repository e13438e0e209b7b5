import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A part of the bench in a process of its own, so that its work is not counted as another's. */
export interface Child {
  /** Where it listens. */
  readonly url: string
  /** Its answer to a question. One question at a time. */
  ask<T>(question: string): Promise<T>
  stop(): Promise<void>
}

/** @throws Error if the process ends before it has said where it listens */
export async function startChild(module: string, args: readonly (string | number)[] = []): Promise<Child> {
  const child = fork(fileURLToPath(import.meta.resolve(module)), args.map(String), {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const answer = async () => {
    const [message] = await Promise.race([
      once(child, 'message'),
      exited.then(() => {
        throw new Error(`${module} has ended`)
      }),
    ])
    return message
  }
  const url: string = await answer()
  return {
    url,
    async ask(question) {
      const answered = answer()
      child.send(question)
      return answered
    },
    async stop() {
      child.kill()
      await exited
    },
  }
}

/** For the child: says where it listens, answers questions, and ends with its parent. */
export function serveParent(url: string, answer: (question: string) => unknown): void {
  process.on('disconnect', () => process.exit())
  process.on('message', (question) => process.send?.(answer(String(question))))
  process.send?.(url)
}
