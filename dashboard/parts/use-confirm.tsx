import { useRef, useState } from 'preact/hooks'

interface Question {
  readonly text: string
  /** Name of the action, for its button. */
  readonly action: string
  readonly run: () => void
}

/** Asks for confirmation before an action. @returns the dialog, and a function that opens it */
export function useConfirm() {
  const dialog = useRef<HTMLDialogElement>(null)
  const cancel = useRef<HTMLButtonElement>(null)
  const [question, setQuestion] = useState<Question>()
  const ask = (text: string, action: string, run: () => void) => {
    setQuestion({ text, action, run })
    dialog.current?.showModal()
    // A key that is pressed once too often does no harm here.
    cancel.current?.focus()
  }
  const close = (isConfirmed: boolean) => {
    dialog.current?.close()
    if (isConfirmed) question?.run()
  }
  const element = (
    <dialog ref={dialog} aria-labelledby="question">
      <p id="question">{question?.text}</p>
      <div class="buttons">
        <button type="button" class="danger" onClick={() => close(true)}>
          {question?.action}
        </button>
        <button ref={cancel} type="button" onClick={() => close(false)}>
          Cancel
        </button>
      </div>
    </dialog>
  )
  return { ask, element }
}
