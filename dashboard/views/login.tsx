import { useState } from 'preact/hooks'
import { ask, type Problem } from '../api.ts'

export function Login({ trouble, onDone }: { trouble: string; onDone: () => void }) {
  const [said, setSaid] = useState(trouble)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    setBusy(true)
    try {
      await ask('/login', { token: new FormData(form).get('token') })
      onDone()
    } catch (error) {
      const { status, message } = error as Problem
      setSaid(status === 401 ? 'That is not the token.' : message)
      setBusy(false)
    }
  }
  return (
    <main class="login">
      <h1>Sluice</h1>
      <form onSubmit={submit}>
        <label for="token">Token of the operators (ADMIN_TOKEN)</label>
        <input id="token" name="token" type="password" autocomplete="current-password" required />
        <button type="submit" disabled={isBusy}>
          Log in
        </button>
        <p role="alert" class="wrong">
          {said}
        </p>
      </form>
    </main>
  )
}
