/** A dialog before an action that is not undone by a click: it names whom it is about, and what follows. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Problem } from '../api.ts'

export interface Question {
  /** Names the action and the caller it affects. */
  readonly title: string
  /** Describes the effect of the action. */
  readonly consequence: string
  /** Name of the action, for its button. */
  readonly action: string
  readonly isDangerous?: boolean
  /** Fields of a form, or what will change. */
  readonly content?: ComponentChildren
  /** @returns a problem, which the dialog shows, and stays open */
  readonly run: (form: FormData) => Promise<unknown>
}
export type Confirm = (question: Question) => void

/** @returns the dialog, and a function that opens it */
export function useConfirm(): { readonly ask: Confirm; readonly element: ComponentChildren } {
  const dialog = useRef<HTMLDialogElement>(null)
  const cancel = useRef<HTMLButtonElement>(null)
  const [question, setQuestion] = useState<Question & { readonly number: number }>()
  const [problem, setProblem] = useState<Problem>()
  const ask = (next: Question) => {
    setProblem(undefined)
    setQuestion((before) => ({ ...next, number: (before?.number ?? 0) + 1 }))
  }
  useLayoutEffect(() => {
    if (!question) return
    dialog.current?.showModal()
    // A key that is pressed once too often does no harm here.
    const harmless = question.content ? dialog : cancel
    harmless.current?.focus()
  }, [question?.number])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const result = await question?.run(new FormData(form))
    if (!(result instanceof Problem)) return dialog.current?.close()
    setProblem(result)
    findField(form, result)?.focus()
  }
  const element = (
    <dialog ref={dialog} tabIndex={-1} aria-labelledby="question">
      <form class="fields" key={question?.number} onSubmit={submit}>
        <h2 id="question">{question?.title}</h2>
        <p>{question?.consequence}</p>
        {question?.content}
        <p role="alert" class="wrong">
          {problem && describeProblem(problem, dialog.current)}
        </p>
        <div class="buttons">
          <button type="submit" class={question?.isDangerous ? 'danger' : undefined}>
            {question?.action}
          </button>
          <button ref={cancel} type="button" class="plain" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  )
  return { ask, element }
}

/** Finds the field that the problem is about: the API names it as the form does. */
function findField(form: Element | null, { pointer = '' }: Problem): HTMLInputElement | undefined {
  const names = pointer.split('/')
  return [...(form?.querySelectorAll('input') ?? [])].find(({ name }) => names.includes(name))
}

function describeProblem(problem: Problem, form: Element | null): string {
  const [label = ''] = (findField(form, problem)?.labels?.[0]?.textContent ?? '').split(/,| \(/)
  return label === '' ? problem.plain : `${label}: ${problem.plain}`
}

/** Reads what was typed into a field. */
export function readField(form: FormData, name: string): string {
  return String(form.get(name) ?? '').trim()
}

export interface FieldProps {
  readonly name: string
  readonly label: string
  readonly required?: boolean
  readonly maxLength?: number
  readonly placeholder?: string
}

export function Field({ name, label, ...rest }: FieldProps) {
  return (
    <label>
      {label}
      <input name={name} autocomplete="off" {...rest} />
    </label>
  )
}
