/** Exchanges the admin token for a session. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, type Problem } from '../api.ts'

export function Login({ trouble, onDone }: { trouble: string; onDone: () => void }) {
  const [problem, setProblem] = useState(trouble)
  const [isBusy, setBusy] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.focus(), [])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    setBusy(true)
    try {
      await ask('/login', { token: new FormData(form).get('token') })
      onDone()
    } catch (error) {
      const { status, message } = error as Problem
      setProblem(status === 401 ? 'Invalid token.' : message)
      setBusy(false)
    }
  }
  return (
    <main class="login">
      <h1>Sluice</h1>
      <form class="fields" onSubmit={submit}>
        <label for="token">Admin token (ADMIN_TOKEN)</label>
        <input ref={input} id="token" name="token" type="password" autocomplete="current-password" required />
        <button type="submit" disabled={isBusy}>
          Log in
        </button>
        <p role="alert" class="wrong">
          {problem}
        </p>
      </form>
    </main>
  )
}
