import { useRef, useState } from 'preact/hooks'

interface Question {
  readonly text: string
  readonly act: () => void
}

/** Asks whether something is meant before it is done. @returns the dialog, and what opens it */
export function useSure() {
  const dialog = useRef<HTMLDialogElement>(null)
  const no = useRef<HTMLButtonElement>(null)
  const [question, setQuestion] = useState<Question>()
  const ask = (text: string, act: () => void) => {
    setQuestion({ text, act })
    dialog.current?.showModal()
    // Where a key that is pressed once too often does no harm.
    no.current?.focus()
  }
  const close = (isSure: boolean) => {
    dialog.current?.close()
    if (isSure) question?.act()
  }
  const element = (
    <dialog ref={dialog} aria-labelledby="question">
      <p id="question">{question?.text}</p>
      <div class="buttons">
        <button type="button" class="danger" onClick={() => close(true)}>
          Yes
        </button>
        <button ref={no} type="button" onClick={() => close(false)}>
          No
        </button>
      </div>
    </dialog>
  )
  return { ask, element }
}
